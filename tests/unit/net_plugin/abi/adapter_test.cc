// What holds for the tables of all versions.
#include "net_plugin/abi/adapter.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

#include "tests/unit/net_plugin/abi/adapter_support.h"

namespace cinch::net {
namespace {

using fake::logged;
using fake::network;

TYPED_TEST_SUITE(AdapterTest, Versions, VersionName);

TYPED_TEST(AdapterTest, HasItsNameAndOffersNothingThatItCannotDo) {
  CINCH_FIXTURE;
  EXPECT_STREQ(table.name, "Cinch");
  EXPECT_EQ(table.getDeviceMr, nullptr);
  EXPECT_EQ(table.irecvConsumed, nullptr);
  if constexpr (TypeParam::value >= 9) {
    EXPECT_EQ(table.makeVDevice, nullptr);
  }
  if constexpr (TypeParam::value >= 11) {
    ncclNetAttr_t attributes = {};
    EXPECT_EQ(table.setNetAttr(this->context_, &attributes), ncclSuccess);
    EXPECT_EQ(table.setNetAttr(nullptr, nullptr), ncclSuccess);
  }
  EXPECT_TRUE(logged.empty());
}

TYPED_TEST(AdapterTest, TranslatesProperties) {
  CINCH_FIXTURE;
  for (const int dev : {0, 1}) {
    typename Net::Properties properties;
    memset(&properties, 0x5a, sizeof properties);
    ASSERT_EQ(table.getProperties(dev, &properties), ncclSuccess);
    EXPECT_STREQ(properties.name, dev == 0 ? "fake0" : "fake1");
    EXPECT_STREQ(properties.pciPath, dev == 0 ? nullptr : "/sys/devices/fake");
    EXPECT_EQ(properties.guid, 100u + dev);
    EXPECT_EQ(properties.ptrSupport,
              dev == 0 ? NCCL_PTR_HOST : NCCL_PTR_HOST | NCCL_PTR_CUDA | NCCL_PTR_DMABUF);
    EXPECT_EQ(properties.regIsGlobal, 0);
    EXPECT_EQ(properties.speed, 25000);
    EXPECT_EQ(properties.port, 3);
    EXPECT_EQ(properties.latency, 1.5f);
    EXPECT_EQ(properties.maxComms, 4096);
    EXPECT_EQ(properties.maxRecvs, dev == 0 ? 1 : 8);
    EXPECT_EQ(properties.netDeviceType, NCCL_NET_DEVICE_HOST);
    EXPECT_EQ(properties.netDeviceVersion, 0);
    if constexpr (TypeParam::value >= 9) {
      EXPECT_EQ(properties.forceFlush, 0);
      EXPECT_EQ(properties.vProps.ndevs, 1);
      EXPECT_EQ(properties.vProps.devs[0], dev);
      const size_t most = dev == 0 ? size_t{1} << 30 : 5000;
      EXPECT_EQ(properties.maxP2pBytes, most);
      EXPECT_EQ(properties.maxCollBytes, most);
    }
    if constexpr (TypeParam::value >= 11) {
      EXPECT_EQ(properties.maxMultiRequestSize, 1);
    }
    if constexpr (TypeParam::value >= 12) {
      EXPECT_EQ(properties.railId, -1);
      EXPECT_EQ(properties.planeId, -1);
    }
  }
}

TYPED_TEST(AdapterTest, RefusesDevicesThatAreNot) {
  CINCH_FIXTURE;
  for (const int dev : {-1, 2, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
    typename Net::Properties properties;
    void* out = stale();
    EXPECT_EQ(table.getProperties(dev, &properties), ncclInvalidArgument);
    this->expectWarning("getProperties: there is no device");
    EXPECT_EQ(Net::listen(this->context_, dev, this->handle_.data(), &out), ncclInvalidArgument);
    EXPECT_EQ(out, nullptr);
    this->expectWarning("listen: there is no device");
    out = stale();
    EXPECT_EQ(Net::connect(this->context_, dev, -1, this->handle_.data(), &out),
              ncclInvalidArgument);
    EXPECT_EQ(out, nullptr);
    this->expectWarning("connect: there is no device");
  }
  EXPECT_TRUE(network.calls.empty());
}

TYPED_TEST(AdapterTest, CountsDevices) {
  CINCH_FIXTURE;
  int count = -1;
  EXPECT_EQ(table.devices(&count), ncclSuccess);
  EXPECT_EQ(count, 2);
  network.nDevices = 0;
  EXPECT_EQ(table.devices(&count), ncclSuccess);
  EXPECT_EQ(count, 0);
  EXPECT_TRUE(logged.empty());
}

TYPED_TEST(AdapterTest, HasNoDeviceRatherThanAnError) {
  CINCH_FIXTURE;
  network.failure = "no interface is up";
  int count = -1;
  EXPECT_EQ(table.devices(&count), ncclSuccess);
  EXPECT_EQ(count, 0);
  this->expectWarning("no interface is up");
  typename Net::Properties properties;
  EXPECT_EQ(table.getProperties(0, &properties), ncclSystemError);
  this->expectWarning("no interface is up");
}

TYPED_TEST(AdapterTest, IsInitialisedAgainAndAgain) {
  CINCH_FIXTURE;
  for (int i = 0; i < 3; ++i) {
    void* another = nullptr;
    EXPECT_EQ(Net::init(fake::logger, 3, &another), ncclSuccess);
    EXPECT_EQ(another != nullptr, TypeParam::value >= 11);
    EXPECT_EQ(Net::finalize(another), ncclSuccess);
  }
  network.failure = "no interface is up";
  void* another = nullptr;
  EXPECT_EQ(Net::init(nullptr, 3, &another), ncclSuccess);
  EXPECT_EQ(Net::finalize(another), ncclSuccess);
}

TYPED_TEST(AdapterTest, ListensOnAHandleOfZeros) {
  CINCH_FIXTURE;
  network.handleAfter.fill(std::byte{9});
  Handle handle;
  handle.fill(std::byte{7});
  void* listener = stale();
  EXPECT_EQ(Net::listen(this->context_, 1, handle.data(), &listener), ncclSuccess);
  EXPECT_EQ(network.device, 1);
  EXPECT_EQ(network.handle, Handle{});
  EXPECT_EQ(handle, network.handleAfter);
  EXPECT_EQ(network.nAlive, 1);
  EXPECT_EQ(table.closeListen(listener), ncclSuccess);
  EXPECT_EQ(network.nAlive, 0);
}

// What connect keeps in the handle is there the next time.
TYPED_TEST(AdapterTest, ConnectsLater) {
  CINCH_FIXTURE;
  Handle handle;
  handle.fill(std::byte{7});
  network.handleAfter.fill(std::byte{9});
  network.opens = false;
  void* comm = stale();
  ncclNetDeviceHandle_t something;
  ncclNetDeviceHandle_t* deviceHandle = &something;
  EXPECT_EQ(Net::connect(this->context_, 1, -1, handle.data(), &comm, &deviceHandle), ncclSuccess);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(deviceHandle, nullptr);
  EXPECT_EQ(network.handle[127], std::byte{7});
  network.opens = true;
  EXPECT_EQ(Net::connect(this->context_, 1, -1, handle.data(), &comm), ncclSuccess);
  EXPECT_EQ(network.handle[127], std::byte{9});
  EXPECT_EQ(network.device, 1);
  ASSERT_NE(comm, nullptr);
  EXPECT_EQ(network.nAlive, 1);
  EXPECT_EQ(table.closeSend(comm), ncclSuccess);
  EXPECT_TRUE(logged.empty());
}

TYPED_TEST(AdapterTest, AcceptsLater) {
  CINCH_FIXTURE;
  void* listener = nullptr;
  ASSERT_EQ(Net::listen(this->context_, 0, this->handle_.data(), &listener), ncclSuccess);
  network.opens = false;
  void* comm = stale();
  ncclNetDeviceHandle_t something;
  ncclNetDeviceHandle_t* deviceHandle = &something;
  EXPECT_EQ(table.accept(listener, &comm, &deviceHandle), ncclSuccess);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(deviceHandle, nullptr);
  network.opens = true;
  EXPECT_EQ(table.accept(listener, &comm, nullptr), ncclSuccess);
  EXPECT_EQ(network.nAlive, 2);
  EXPECT_EQ(table.closeRecv(comm), ncclSuccess);
  EXPECT_EQ(table.closeListen(listener), ncclSuccess);
}

TYPED_TEST(AdapterTest, RegistersMemoryOnEitherEnd) {
  CINCH_FIXTURE;
  network.token = stale();
  for (void* comm : {this->sender(), this->receiver()}) {
    void* token = nullptr;
    EXPECT_EQ(table.regMr(comm, this->data_, 16, NCCL_PTR_HOST, &token), ncclSuccess);
    EXPECT_EQ(token, stale());
    EXPECT_EQ(network.data, this->data_);
    EXPECT_EQ(network.nBytes, 16u);
    EXPECT_EQ(network.kind, MemoryKind::host);
    EXPECT_EQ(table.regMr(comm, this->data_, 16, NCCL_PTR_CUDA, &token), ncclSuccess);
    EXPECT_EQ(network.kind, MemoryKind::device);
    EXPECT_EQ(table.deregMr(comm, token), ncclSuccess);
    EXPECT_EQ(network.memory, stale());
    EXPECT_EQ(table.deregMr(comm, nullptr), ncclSuccess);
    EXPECT_EQ(network.memory, nullptr);
  }
}

TYPED_TEST(AdapterTest, RegistersDmabufsOnEitherEnd) {
  CINCH_FIXTURE;
  network.token = stale();
  for (void* comm : {this->sender(), this->receiver()}) {
    void* token = nullptr;
    const uint64_t offset = uint64_t{1} << 40;
    EXPECT_EQ(table.regMrDmaBuf(comm, this->data_, 16, NCCL_PTR_CUDA, offset, 9, &token),
              ncclSuccess);
    EXPECT_EQ(token, stale());
    EXPECT_EQ(network.calls.back(), "registerDmabuf");
    EXPECT_EQ(network.data, this->data_);
    EXPECT_EQ(network.nBytes, 16u);
    EXPECT_EQ(network.dmabuf.offset, offset);
    EXPECT_EQ(network.dmabuf.descriptor, 9);
    EXPECT_EQ(table.deregMr(comm, token), ncclSuccess);
    EXPECT_EQ(network.memory, stale());
  }
}

TYPED_TEST(AdapterTest, RefusesWhatIsNoDmabuf) {
  CINCH_FIXTURE;
  this->sender();
  const size_t nCalls = network.calls.size();
  const auto refused = [&](void* data, size_t nBytes, int type, int descriptor, const char* what) {
    void* token = stale();
    EXPECT_EQ(table.regMrDmaBuf(this->sender(), data, nBytes, type, 0, descriptor, &token),
              ncclInvalidArgument);
    EXPECT_EQ(token, nullptr);
    this->expectWarning(what);
  };
  refused(nullptr, 16, NCCL_PTR_CUDA, 9, "regMrDmaBuf: data is NULL");
  refused(this->data_, 0, NCCL_PTR_CUDA, 9, "regMrDmaBuf: 0 bytes of descriptor 9");
  refused(this->data_, 16, NCCL_PTR_CUDA, -1, "regMrDmaBuf: 16 bytes of descriptor -1");
  refused(this->data_, 16, 0, 9, "regMrDmaBuf: memory of type 0");
  EXPECT_EQ(network.calls.size(), nCalls);
}

TYPED_TEST(AdapterTest, RefusesMemoryOfAnotherType) {
  CINCH_FIXTURE;
  void* token = stale();
  for (const int type : {0, int{NCCL_PTR_DMABUF}, NCCL_PTR_HOST | NCCL_PTR_CUDA, -1}) {
    EXPECT_EQ(table.regMr(this->sender(), this->data_, 16, type, &token), ncclInvalidArgument);
    EXPECT_EQ(token, nullptr);
    this->expectWarning("regMr: memory of type");
  }
}

TYPED_TEST(AdapterTest, PassesMessagesOn) {
  CINCH_FIXTURE;
  void* request = stale();
  EXPECT_EQ(Net::isend(this->sender(), this->data_, 7, stale(), &request), ncclSuccess);
  EXPECT_NE(request, nullptr);
  EXPECT_NE(request, stale());
  EXPECT_EQ(network.calls.back(), "send");
  EXPECT_EQ(network.data, this->data_);
  EXPECT_EQ(network.nBytes, 7u);
  EXPECT_EQ(network.tag, 5);
  EXPECT_EQ(network.memory, stale());
  EXPECT_EQ(Net::isend(this->sender(), this->data_, 7, nullptr, &request, -6), ncclSuccess);
  EXPECT_EQ(network.tag, -6);
  EXPECT_EQ(network.memory, nullptr);
  request = stale();
  EXPECT_EQ(Net::irecv(this->receiver(), this->data_, 12, nullptr, &request), ncclSuccess);
  EXPECT_NE(request, nullptr);
  EXPECT_NE(request, stale());
  EXPECT_EQ(network.calls.back(), "receive");
  ASSERT_EQ(network.buffers.size(), 1u);
  EXPECT_EQ(network.buffers[0].data, this->data_);
  EXPECT_EQ(network.buffers[0].capacity, 12u);
  EXPECT_EQ(network.buffers[0].tag, 5);
  EXPECT_EQ(network.buffers[0].memory, nullptr);
}

TYPED_TEST(AdapterTest, OverwritesWhatTheRequestWas) {
  CINCH_FIXTURE;
  network.posts = false;
  for (void* before : {stale(), reinterpret_cast<void*>(NCCL_NET_OPTIONAL_RECV_COMPLETION)}) {
    void* request = before;
    EXPECT_EQ(Net::isend(this->sender(), this->data_, 7, nullptr, &request), ncclSuccess);
    EXPECT_EQ(request, nullptr);
    request = before;
    EXPECT_EQ(Net::irecv(this->receiver(), this->data_, 7, nullptr, &request), ncclSuccess);
    EXPECT_EQ(request, nullptr);
  }
  EXPECT_TRUE(logged.empty());
}

TYPED_TEST(AdapterTest, TakesMessagesOfNothingAndOfTheMost) {
  CINCH_FIXTURE;
  void* request = nullptr;
  EXPECT_EQ(Net::isend(this->sender(), nullptr, 0, nullptr, &request), ncclSuccess);
  EXPECT_EQ(Net::irecv(this->receiver(), nullptr, 0, nullptr, &request), ncclSuccess);
  EXPECT_EQ(Net::isend(this->sender(), this->data_, 1 << 30, nullptr, &request), ncclSuccess);
  EXPECT_EQ(network.nBytes, size_t{1} << 30);
}

TYPED_TEST(AdapterTest, RefusesImpossibleSizes) {
  CINCH_FIXTURE;
  using Size = typename Net::Size;
  const Size sizes[] = {static_cast<Size>(-1), static_cast<Size>((1 << 30) + 1),
                        std::numeric_limits<Size>::max(), std::numeric_limits<Size>::max() / 2 + 2};
  this->sender();
  this->receiver();
  const size_t nCalls = network.calls.size();
  for (const Size size : sizes) {
    void* request = stale();
    EXPECT_EQ(Net::isend(this->sender(), this->data_, size, nullptr, &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    this->expectWarning("isend: size");
    request = stale();
    EXPECT_EQ(Net::irecv(this->receiver(), this->data_, size, nullptr, &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    this->expectWarning("irecv: size");
  }
  EXPECT_EQ(network.calls.size(), nCalls);
}

TYPED_TEST(AdapterTest, RefusesNulls) {
  CINCH_FIXTURE;
  void* out = nullptr;
  void* request = this->request();
  void* data[1] = {this->data_};
  typename Net::Size size = 4;
  int done = 0, tag = 0;
  char* handle = reinterpret_cast<char*>(this->handle_.data());
  const auto refused = [&](ncclResult_t result, const char* what) {
    EXPECT_EQ(result, ncclInvalidArgument) << what;
    this->expectWarning(what);
  };
  refused(table.devices(nullptr), "devices: the count");
  refused(table.getProperties(0, nullptr), "getProperties: the properties");
  refused(Net::listen(this->context_, 0, nullptr, &out), "listen: handle is NULL");
  refused(Net::listen(this->context_, 0, handle, nullptr), "listen: the listener");
  refused(Net::connect(this->context_, 0, -1, nullptr, &out), "connect: handle is NULL");
  refused(Net::connect(this->context_, 0, -1, handle, nullptr), "connect: the connection");
  refused(table.accept(nullptr, &out, nullptr), "accept: the listener");
  refused(table.accept(stale(), nullptr, nullptr), "accept: the connection");
  refused(table.regMr(nullptr, data, 1, NCCL_PTR_HOST, &out), "regMr: the connection");
  refused(table.regMr(this->sender(), nullptr, 1, NCCL_PTR_HOST, &out), "regMr: data is NULL");
  refused(table.regMr(this->sender(), data, 1, NCCL_PTR_HOST, nullptr), "regMr: the token");
  refused(table.regMrDmaBuf(nullptr, data, 1, NCCL_PTR_CUDA, 0, 1, &out),
          "regMrDmaBuf: the connection");
  refused(table.regMrDmaBuf(this->sender(), data, 1, NCCL_PTR_CUDA, 0, 1, nullptr),
          "regMrDmaBuf: the token");
  refused(table.deregMr(nullptr, nullptr), "deregMr: the connection");
  refused(Net::isend(nullptr, this->data_, 4, nullptr, &out), "isend: the connection");
  refused(Net::isend(this->sender(), nullptr, 4, nullptr, &out), "isend: data is NULL");
  refused(Net::isend(this->sender(), this->data_, 4, nullptr, nullptr), "isend: the request");
  refused(Net::irecv(nullptr, this->data_, 4, nullptr, &out), "irecv: the connection");
  refused(Net::irecv(this->receiver(), nullptr, 4, nullptr, &out), "irecv: data is NULL");
  refused(Net::irecv(this->receiver(), 1, nullptr, &size, &tag, nullptr, &out),
          "irecv: data is NULL");
  refused(Net::irecv(this->receiver(), 1, data, nullptr, &tag, nullptr, &out),
          "irecv: sizes is NULL");
  refused(Net::irecv(this->receiver(), 1, data, &size, &tag, nullptr, nullptr),
          "irecv: the request");
  refused(table.iflush(this->receiver(), 1, data, &done, nullptr, nullptr), "iflush: the request");
  refused(table.iflush(nullptr, 1, data, &done, nullptr, &out), "iflush: the connection");
  refused(table.iflush(this->receiver(), 1, nullptr, &done, nullptr, &out), "iflush: data is NULL");
  refused(table.iflush(this->receiver(), 1, data, nullptr, nullptr, &out), "iflush: sizes is NULL");
  refused(table.test(nullptr, &done, nullptr), "test: the request");
  refused(table.test(request, nullptr, nullptr), "test: done is NULL");
  EXPECT_EQ(Net::irecv(this->receiver(), 1, data, &size, nullptr, nullptr, &out), ncclSuccess);
}

TYPED_TEST(AdapterTest, SaysWhenARequestIsDone) {
  CINCH_FIXTURE;
  void* request = this->request();
  int done = 5, nBytes = -3;
  network.isDone = false;
  network.nBytesMoved = {1234, 77};
  EXPECT_EQ(table.test(request, &done, &nBytes), ncclSuccess);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(nBytes, -3);
  network.isDone = true;
  EXPECT_EQ(table.test(request, &done, nullptr), ncclSuccess);
  EXPECT_EQ(done, 1);
  request = this->request();
  int sizes[2] = {-3, -3};
  EXPECT_EQ(table.test(request, &done, sizes), ncclSuccess);
  EXPECT_EQ(sizes[0], 1234);
  EXPECT_EQ(sizes[1], -3) << "a send has one size";
}

TYPED_TEST(AdapterTest, ClosesNothing) {
  CINCH_FIXTURE;
  EXPECT_EQ(table.closeSend(nullptr), ncclSuccess);
  EXPECT_EQ(table.closeRecv(nullptr), ncclSuccess);
  EXPECT_EQ(table.closeListen(nullptr), ncclSuccess);
}

// Each call once, with whatever the network does when it is called: the same result, one line, and
// nothing in the outputs.
template <class Fixture, class Net>
void expectAll(Fixture* fixture, ncclResult_t expected, const char* text) {
  auto& table = Net::table();
  void* out = stale();
  int done = 5;
  char data[4];
  const auto check = [&](ncclResult_t result, const char* call) {
    EXPECT_EQ(result, expected) << call;
    EXPECT_EQ(out, nullptr) << call;
    out = stale();
    ASSERT_EQ(logged.size(), 1u) << call;
    EXPECT_EQ(logged[0].text, std::string("CINCH/NET ") + call + ": " + text);
    logged.clear();
  };
  Handle handle{};
  void *context = fixture->context, *comm = fixture->sender;
  check(Net::listen(context, 0, handle.data(), &out), "listen");
  check(Net::connect(context, 0, -1, handle.data(), &out), "connect");
  check(table.accept(fixture->listener, &out, nullptr), "accept");
  check(table.regMr(comm, data, 4, NCCL_PTR_HOST, &out), "regMr");
  check(table.regMrDmaBuf(comm, data, 4, NCCL_PTR_CUDA, 0, 3, &out), "regMrDmaBuf");
  check(Net::isend(comm, data, 4, nullptr, &out), "isend");
  check(Net::irecv(fixture->receiver, data, 4, nullptr, &out), "irecv");
  void* flushed = data;
  int flushedBytes = 4;
  check(table.iflush(fixture->receiver, 1, &flushed, &flushedBytes, nullptr, &out), "iflush");
  out = nullptr;
  check(table.deregMr(comm, nullptr), "deregMr");
  out = nullptr;
  check(table.test(fixture->request, &done, nullptr), "test");
  EXPECT_EQ(done, 0);
}

struct Objects {
  void *context, *sender, *receiver, *request, *listener;
};

TYPED_TEST(AdapterTest, PassesErrorsOn) {
  CINCH_FIXTURE;
  void* listener = nullptr;
  ASSERT_EQ(Net::listen(this->context_, 0, this->handle_.data(), &listener), ncclSuccess);
  Objects objects = {this->context_, this->sender(), this->receiver(), this->request(), listener};
  for (int status = 1; status <= 7; ++status) {
    network.onCall = [&] {
      return Result<void>(Error{static_cast<Status>(status), "rank 3 is gone"});
    };
    expectAll<Objects, Net>(&objects, static_cast<ncclResult_t>(status), "rank 3 is gone");
  }
  table.closeListen(listener);
}

TYPED_TEST(AdapterTest, ThrowsNothing) {
  CINCH_FIXTURE;
  void* listener = nullptr;
  ASSERT_EQ(Net::listen(this->context_, 0, this->handle_.data(), &listener), ncclSuccess);
  Objects objects = {this->context_, this->sender(), this->receiver(), this->request(), listener};
  network.onCall = []() -> Result<void> { throw std::bad_alloc(); };
  expectAll<Objects, Net>(&objects, ncclSystemError, "out of memory");
  network.onCall = []() -> Result<void> { throw std::runtime_error("unlucky"); };
  expectAll<Objects, Net>(&objects, ncclInternalError, "unlucky");
  network.onCall = []() -> Result<void> { throw 7; };
  expectAll<Objects, Net>(&objects, ncclInternalError, "unknown exception");
  table.closeListen(listener);
}

TYPED_TEST(AdapterTest, WarnsForAllAndInformsThoseWhoAsk) {
  CINCH_FIXTURE;
  table.test(nullptr, nullptr, nullptr);
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_EQ(logged[0].flags, ~0ul);
  void* another = nullptr;
  EXPECT_EQ(Net::init(fake::logger, 3, &another), ncclSuccess);
  for (size_t i = 1; i < logged.size(); ++i) {
    EXPECT_EQ(logged[i].level, NCCL_LOG_INFO);
    EXPECT_EQ(logged[i].flags, static_cast<unsigned long>(NCCL_LOG_INIT | NCCL_LOG_NET));
  }
  Net::finalize(another);
}

}  // namespace
}  // namespace cinch::net
