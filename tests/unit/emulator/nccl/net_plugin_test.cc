// The adapters of all versions against tables that record what they are given.
#include "emulator/nccl/net_plugin.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "net_plugin/abi/net_v10.h"
#include "net_plugin/abi/net_v11.h"
#include "net_plugin/abi/net_v12.h"
#include "net_plugin/abi/net_v8.h"
#include "net_plugin/abi/net_v9.h"

namespace cinch::emulator {
namespace {

constexpr size_t kGiB = size_t{1} << 30;

// What the last calls were given.
struct Record {
  int nInits = 0;
  int nFinalizes = 0;
  uint64_t commId = 0;
  int trafficClass = 0;
  bool hasLogger = false;
  void* context = nullptr;
  int device = -1;
  size_t size = 0;
  int n = 0;
  int tag = -1;
  void* data = nullptr;
  void* mr = nullptr;
  void* requestBefore = nullptr;
  ncclResult_t initResult = ncclSuccess;
};
Record record;

void* const kContext = &record;
int objects[4];
void* const kListener = &objects[0];
void* const kConnection = &objects[1];
void* const kMr = &objects[2];
void* const kRequest = &objects[3];

ncclResult_t start(ncclDebugLogger_t logger) {
  ++record.nInits;
  record.hasLogger = logger != nullptr;
  return record.initResult;
}

template <class Properties>
ncclResult_t properties(int device, Properties* out) {
  static char name[] = "card3";
  record.device = device;
  memset(out, 0x7f, sizeof *out);  // fields that nobody reads may hold anything
  out->name = name;
  out->ptrSupport = 5;
  out->speed = 25000;
  out->maxRecvs = 8;
  out->netDeviceType = 1;
  if constexpr (requires { out->maxP2pBytes; }) {
    out->maxP2pBytes = 11 * kGiB;
  }
  return ncclSuccess;
}

ncclResult_t isend(void* connection, void* data, size_t size, int tag, void* mr, void** request) {
  EXPECT_EQ(connection, kConnection);
  record.data = data;
  record.size = size;
  record.tag = tag;
  record.mr = mr;
  record.requestBefore = std::exchange(*request, kRequest);
  return ncclSuccess;
}

template <class Size>
ncclResult_t irecv(void* connection, int n, void** data, Size* sizes, int* tags, void** mrs,
                   void** request) {
  record.n = n;
  return isend(connection, data[0], static_cast<size_t>(sizes[0]), tags[0], mrs[0], request);
}

// What the tables have in common; the rest differs by version.
template <class Table>
Table commonTable(const char* name) {
  Table table{};
  table.name = name;
  table.devices = [](int* n) {
    *n = 3;
    return ncclSuccess;
  };
  table.getProperties = properties;
  table.accept = [](void* listener, void** connection, ncclNetDeviceHandle_t** offload) {
    EXPECT_EQ(listener, kListener);
    EXPECT_NE(offload, nullptr);
    *connection = kConnection;
    return ncclSuccess;
  };
  table.regMr = [](void*, void* data, size_t size, int, void** mr) {
    record.data = data;
    record.size = size;
    *mr = kMr;
    return ncclSuccess;
  };
  table.deregMr = [](void*, void* mr) { return mr == kMr ? ncclSuccess : ncclInternalError; };
  table.test = [](void* request, int* done, int* sizes) {
    EXPECT_EQ(request, kRequest);
    *done = 1;
    *sizes = 77;
    return ncclSuccess;
  };
  table.closeSend = [](void*) { return ncclSystemError; };
  table.closeRecv = [](void*) { return ncclRemoteError; };
  table.closeListen = [](void*) { return ncclInvalidUsage; };
  return table;
}

ncclResult_t listenOn(void* context, int device, void** listener) {
  record.context = context;
  record.device = device;
  *listener = kListener;
  return ncclSuccess;
}

template <class Table>
void addOldSetUp(Table& table) {
  table.listen = [](int device, void*, void** listener) {
    return listenOn(nullptr, device, listener);
  };
}

template <class Table>
void addUnconfigured(Table& table) {
  addOldSetUp(table);
  table.init = start;
  table.connect = [](int device, void*, void** connection, ncclNetDeviceHandle_t** offload) {
    EXPECT_NE(offload, nullptr);
    return listenOn(nullptr, device, connection);
  };
}

template <class Table>
void addProfiled(Table& table) {
  table.isend = [](void* connection, void* data, size_t size, int tag, void* mr, void* event,
                   void** request) {
    EXPECT_EQ(event, nullptr);
    return isend(connection, data, size, tag, mr, request);
  };
  table.irecv = [](void* connection, int n, void** data, size_t* sizes, int* tags, void** mrs,
                   void** events, void** request) {
    EXPECT_EQ(events[0], nullptr);
    return irecv(connection, n, data, sizes, tags, mrs, request);
  };
}

template <class Table>
Table newTable(const char* name) {
  Table table = commonTable<Table>(name);
  table.init = [](void** context, uint64_t commId, ncclNetCommConfig_t* config,
                  ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) {
    EXPECT_NE(profiler, nullptr);
    record.commId = commId;
    record.trafficClass = config->trafficClass;
    *context = kContext;
    return start(logger);
  };
  table.listen = [](void* context, int device, void*, void** listener) {
    return listenOn(context, device, listener);
  };
  table.connect = [](void* context, int device, void*, void** connection,
                     ncclNetDeviceHandle_t** offload) {
    EXPECT_NE(offload, nullptr);
    return listenOn(context, device, connection);
  };
  table.finalize = [](void* context) {
    EXPECT_EQ(context, kContext);
    ++record.nFinalizes;
    return ncclSuccess;
  };
  addProfiled(table);
  return table;
}

ncclNet_v8_t table8() {
  auto table = commonTable<ncclNet_v8_t>("Eight");
  addUnconfigured(table);
  table.isend = [](void* connection, void* data, int size, int tag, void* mr, void** request) {
    return isend(connection, data, static_cast<size_t>(size), tag, mr, request);
  };
  table.irecv = irecv<int>;
  return table;
}

ncclNet_v9_t table9() {
  auto table = commonTable<ncclNet_v9_t>("Nine");
  addUnconfigured(table);
  table.isend = isend;
  table.irecv = irecv<size_t>;
  return table;
}

ncclNet_v10_t table10() {
  auto table = commonTable<ncclNet_v10_t>("Ten");
  addOldSetUp(table);
  table.init = [](ncclDebugLogger_t logger, ncclProfilerCallback_t profiler) {
    EXPECT_NE(profiler, nullptr);
    return start(logger);
  };
  table.connect = [](int device, ncclNetCommConfig_t* config, void*, void** connection,
                     ncclNetDeviceHandle_t**) {
    record.trafficClass = config->trafficClass;
    return listenOn(nullptr, device, connection);
  };
  addProfiled(table);
  return table;
}

// A library that exports the tables of some versions.
std::unique_ptr<NetTransport> load(const std::vector<int>& versions) {
  static const ncclNet_v8_t v8 = table8();
  static const ncclNet_v9_t v9 = table9();
  static const ncclNet_v10_t v10 = table10();
  static const auto v11 = newTable<ncclNet_v11_t>("Eleven");
  static const auto v12 = newTable<ncclNet_v12_t>("Twelve");
  static const std::map<int, const void*> tables = {
      {8, &v8}, {9, &v9}, {10, &v10}, {11, &v11}, {12, &v12}};
  std::map<std::string, const void*> exported;
  for (const int version : versions) {
    exported["ncclNetPlugin_v" + std::to_string(version)] = tables.at(version);
  }
  record = {};
  return adaptNetPlugin([&](const char* name) -> const void* {
    const auto found = exported.find(name);
    return found == exported.end() ? nullptr : found->second;
  });
}

TEST(NetPlugin, UsesTheNewestTable) {
  EXPECT_STREQ(load({8, 9, 10, 11, 12})->name(), "Twelve");
  EXPECT_STREQ(load({8, 11})->name(), "Eleven");
  EXPECT_STREQ(load({10, 8, 9})->name(), "Ten");
  EXPECT_STREQ(load({9, 8})->name(), "Nine");
  EXPECT_STREQ(load({8})->name(), "Eight");
  EXPECT_EQ(load({}), nullptr);
}

class Version : public testing::TestWithParam<int> {
 protected:
  bool isOld() const { return GetParam() < 11; }

  const std::unique_ptr<NetTransport> net_ = load({GetParam()});
};

TEST_P(Version, StartsOncePerCommunicatorOrOnceAtAll) {
  void* contexts[3] = {};
  EXPECT_EQ(net_->init(&contexts[0], 17, 3), ncclSuccess);
  EXPECT_EQ(net_->init(&contexts[1], 18, 4), ncclSuccess);
  EXPECT_TRUE(record.hasLogger);
  EXPECT_EQ(record.nInits, isOld() ? 1 : 2);
  EXPECT_EQ(record.commId, isOld() ? 0u : 18u);
  EXPECT_EQ(net_->finalize(contexts[0]), ncclSuccess);
  EXPECT_EQ(net_->finalize(contexts[1]), ncclSuccess);
  EXPECT_EQ(record.nFinalizes, isOld() ? 0 : 2);
  EXPECT_EQ(net_->init(&contexts[2], 19, 5), ncclSuccess);
  EXPECT_EQ(record.nInits, isOld() ? 2 : 3) << "nobody used it, so it starts again";
  EXPECT_EQ(net_->finalize(contexts[2]), ncclSuccess);
}

TEST_P(Version, MayFailToStartAndBeTriedAgain) {
  void* context = nullptr;
  record.initResult = ncclSystemError;
  EXPECT_EQ(net_->init(&context, 1, 0), ncclSystemError);
  record.initResult = ncclSuccess;
  EXPECT_EQ(net_->init(&context, 1, 0), ncclSuccess);
  EXPECT_EQ(record.nInits, 2);
  EXPECT_EQ(net_->finalize(context), ncclSuccess);
}

TEST_P(Version, ReadsItsPropertiesLayout) {
  int nDevices = 0;
  EXPECT_EQ(net_->devices(&nDevices), ncclSuccess);
  EXPECT_EQ(nDevices, 3);
  NetProperties got;
  EXPECT_EQ(net_->getProperties(2, &got), ncclSuccess);
  EXPECT_EQ(record.device, 2);
  EXPECT_EQ(got.name, "card3");
  EXPECT_EQ(got.pointerSupport, 5);
  EXPECT_EQ(got.speedMbps, 25000);
  EXPECT_EQ(got.maxRecvs, 8);
  EXPECT_EQ(got.deviceType, 1);
  EXPECT_EQ(got.maxP2pBytes, GetParam() == 8 ? kGiB : 11 * kGiB);
}

TEST_P(Version, PassesContextAndTrafficClass) {
  void* context = nullptr;
  void* made = nullptr;
  char handle[kNetHandleBytes] = {};
  ASSERT_EQ(net_->init(&context, 1, 6), ncclSuccess);
  EXPECT_EQ(net_->listen(context, 2, handle, &made), ncclSuccess);
  EXPECT_EQ(made, kListener);
  EXPECT_EQ(record.device, 2);
  EXPECT_EQ(record.context, isOld() ? nullptr : kContext);
  record.context = nullptr;
  EXPECT_EQ(net_->connect(context, 1, handle, &made), ncclSuccess);
  EXPECT_EQ(record.device, 1);
  EXPECT_EQ(record.context, isOld() ? nullptr : kContext);
  EXPECT_EQ(record.trafficClass, GetParam() >= 10 ? 6 : 0);
  EXPECT_EQ(net_->accept(kListener, &made), ncclSuccess);
  EXPECT_EQ(made, kConnection);
  EXPECT_EQ(net_->finalize(context), ncclSuccess);
}

TEST_P(Version, PassesTransfers) {
  char data[10];
  void* request = &data;
  EXPECT_EQ(net_->isend(kConnection, data, 10, 5, kMr, &request), ncclSuccess);
  EXPECT_EQ(request, kRequest);
  EXPECT_EQ(record.requestBefore, data) << "it comes as the caller left it";
  EXPECT_EQ(record.data, data);
  EXPECT_EQ(record.size, 10u);
  EXPECT_EQ(record.tag, 5);
  EXPECT_EQ(record.mr, kMr);
  request = nullptr;
  EXPECT_EQ(net_->irecv(kConnection, data + 1, 9, 6, nullptr, &request), ncclSuccess);
  EXPECT_EQ(request, kRequest);
  EXPECT_EQ(record.requestBefore, nullptr);
  EXPECT_EQ(record.n, 1);
  EXPECT_EQ(record.data, data + 1);
  EXPECT_EQ(record.size, 9u);
  EXPECT_EQ(record.tag, 6);
  EXPECT_EQ(record.mr, nullptr);
  int done = 0, nBytes = 0;
  EXPECT_EQ(net_->test(kRequest, &done, &nBytes), ncclSuccess);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(nBytes, 77);
}

// Version 8 has no larger sizes.
TEST_P(Version, LimitsSizes) {
  char byte = 0;
  void* request = nullptr;
  const ncclResult_t large = GetParam() == 8 ? ncclInternalError : ncclSuccess;
  EXPECT_EQ(net_->isend(kConnection, &byte, kGiB, 0, kMr, &request), ncclSuccess);
  EXPECT_EQ(record.size, kGiB);
  EXPECT_EQ(net_->isend(kConnection, &byte, kGiB + 1, 0, kMr, &request), large);
  EXPECT_EQ(net_->irecv(kConnection, &byte, kGiB, 0, kMr, &request), ncclSuccess);
  EXPECT_EQ(net_->irecv(kConnection, &byte, 5 * kGiB, 0, kMr, &request), large);
  EXPECT_EQ(record.size, large == ncclSuccess ? 5 * kGiB : kGiB);
}

TEST_P(Version, PassesWhatAllVersionsShare) {
  char data[4];
  void* mr = nullptr;
  EXPECT_EQ(net_->regMr(kConnection, data, 4, kNetPointerHost, &mr), ncclSuccess);
  EXPECT_EQ(mr, kMr);
  EXPECT_EQ(record.data, data);
  EXPECT_EQ(record.size, 4u);
  EXPECT_EQ(net_->deregMr(kConnection, mr), ncclSuccess);
  EXPECT_EQ(net_->closeSend(kConnection), ncclSystemError);
  EXPECT_EQ(net_->closeRecv(kConnection), ncclRemoteError);
  EXPECT_EQ(net_->closeListen(kListener), ncclInvalidUsage);
  EXPECT_FALSE(net_->isPollable());
}

INSTANTIATE_TEST_SUITE_P(All, Version, testing::Range(8, 13));

}  // namespace
}  // namespace cinch::emulator
