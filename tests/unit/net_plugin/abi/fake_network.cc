#include "tests/unit/net_plugin/abi/fake_network.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace cinch::net {
namespace fake {

Network network;
std::vector<LoggedLine> logged;

void logger(ncclDebugLogLevel level, unsigned long flags, const char*, int, const char* format,
            ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  logged.push_back({level, flags, text});
}

void reset() {
  network = {};
  logged.clear();
}

namespace {

Result<void> begin(const char* call) {
  network.calls.push_back(call);
  return network.onCall();
}

struct Alive {
  Alive() { ++network.nAlive; }
  ~Alive() { --network.nAlive; }
};

class FakeRequest : public Request {
 public:
  Request* begun(size_t nBuffers) {
    if (!network.posts) return nullptr;
    nBuffers_ = nBuffers;
    return this;
  }
  Result<bool> test(size_t* sizes) override {
    CINCH_TRY(begin("test"));
    std::copy_n(network.nBytesMoved.begin(), nBuffers_, sizes);
    // As a request whose place is taken again: what it was is not to be asked for any more.
    if (network.isDone) nBuffers_ = kMaxGroup;
    return network.isDone;
  }
  size_t nBuffers() const override { return nBuffers_; }

 private:
  size_t nBuffers_ = 1;
};
FakeRequest request;

Result<Request*> postGroup(const char* call, std::span<const Buffer> buffers) {
  CINCH_TRY(begin(call));
  if (buffers.size() > network.maxReceives) {
    return errorf(Status::invalidArgument, "%zu receives at once, this takes %zu", buffers.size(),
                  network.maxReceives);
  }
  network.buffers.assign(buffers.begin(), buffers.end());
  return request.begun(buffers.size());
}

Result<void*> registerIn(void* data, size_t nBytes, MemoryKind kind) {
  CINCH_TRY(begin("registerMemory"));
  network.data = data;
  network.nBytes = nBytes;
  network.kind = kind;
  return network.token;
}

Result<void*> registerDmabufIn(void* data, size_t nBytes, const Dmabuf& source) {
  CINCH_TRY(begin("registerDmabuf"));
  network.data = data;
  network.nBytes = nBytes;
  network.dmabuf = source;
  return network.token;
}

Result<void> deregisterIn(void* memory) {
  CINCH_TRY(begin("deregisterMemory"));
  network.memory = memory;
  return {};
}

// A second base in front moves the one that NCCL's pointers must be: a wrong cast shows.
struct Padding {
  virtual ~Padding() = default;
  char bytes[24] = {};
};

class FakeSender : Padding, public SendConnection {
 public:
  Result<void*> registerMemory(void* data, size_t nBytes, MemoryKind kind) override {
    return registerIn(data, nBytes, kind);
  }
  Result<void*> registerDmabuf(void* data, size_t nBytes, const Dmabuf& source) override {
    return registerDmabufIn(data, nBytes, source);
  }
  Result<void> deregisterMemory(void* memory) override { return deregisterIn(memory); }
  Result<Request*> send(const void* data, size_t nBytes, int tag, void* memory) override {
    CINCH_TRY(begin("send"));
    network.data = data;
    network.nBytes = nBytes;
    network.tag = tag;
    network.memory = memory;
    return request.begun(1);
  }

 private:
  Alive alive_;
};

class FakeReceiver : Padding, public ReceiveConnection {
 public:
  Result<void*> registerMemory(void* data, size_t nBytes, MemoryKind kind) override {
    return registerIn(data, nBytes, kind);
  }
  Result<void*> registerDmabuf(void* data, size_t nBytes, const Dmabuf& source) override {
    return registerDmabufIn(data, nBytes, source);
  }
  Result<void> deregisterMemory(void* memory) override { return deregisterIn(memory); }
  Result<Request*> receive(std::span<const Buffer> buffers) override {
    return postGroup("receive", buffers);
  }
  Result<Request*> flush(std::span<const Buffer> buffers) override {
    return postGroup("flush", buffers);
  }

 private:
  Alive alive_;
};

// `opens` says whether there is one yet.
template <class Made, class Noun>
Result<std::unique_ptr<Noun>> maybe() {
  return network.opens ? std::unique_ptr<Noun>(std::make_unique<Made>()) : nullptr;
}

class FakeListener : Padding, public Listener {
 public:
  Result<std::unique_ptr<ReceiveConnection>> accept() override {
    CINCH_TRY(begin("accept"));
    return maybe<FakeReceiver, ReceiveConnection>();
  }

 private:
  Alive alive_;
};

class FakeDevice : public Device {
 public:
  explicit FakeDevice(int index) : index_(index) {
    properties_.name = index == 0 ? "fake0" : "fake1";
    properties_.pciPath = index == 0 ? nullptr : "/sys/devices/fake";
    properties_.guid = 100 + index;
    properties_.takesDeviceMemory = properties_.takesDmabuf = index == 1;
    properties_.speedMbps = 25000;
    properties_.port = 3;
    properties_.latencyUs = 1.5f;
    properties_.maxConnections = 4096;
    properties_.maxReceives = index == 0 ? 1 : 8;
    properties_.maxBytes = index == 0 ? size_t{1} << 40 : 5000;
  }
  const Properties& properties() const override { return properties_; }
  Result<std::unique_ptr<Listener>> listen(Handle& handle) override {
    CINCH_TRY(begin("listen"));
    exchange(handle);
    return maybe<FakeListener, Listener>();
  }
  Result<std::unique_ptr<SendConnection>> connect(Handle& handle, int trafficClass) override {
    CINCH_TRY(begin("connect"));
    exchange(handle);
    network.trafficClass = trafficClass;
    return maybe<FakeSender, SendConnection>();
  }

 private:
  void exchange(Handle& handle) {
    network.device = index_;
    network.handle = handle;
    handle = network.handleAfter;
  }

  int index_;
  Properties properties_;
};

}  // namespace
}  // namespace fake

Result<std::span<Device* const>> devices() {
  static fake::FakeDevice first(0), second(1);
  static Device* const all[] = {&first, &second};
  if (!fake::network.failure.empty()) return Error{Status::systemError, fake::network.failure};
  return std::span<Device* const>(all, fake::network.nDevices);
}

}  // namespace cinch::net
