// Two hosts of two devices each, in one process: a FakeProvider's first two are those of the
// sending side, the next two those of the receiving one. A connection between them, and what goes
// over it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <new>

#include "fake_provider.h"
#include "fake_sysfs.h"
#include "memory_network.h"
#include "net_plugin/ib/device.h"

namespace cinch::net::ib {

// Whole pages, as a GPU's memory comes.
template <class T>
struct PageAllocator {
  using value_type = T;
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* data, size_t) { ::operator delete(data, kAlignment); }
  bool operator==(const PageAllocator&) const = default;

  static constexpr std::align_val_t kAlignment{4096};
};
using Pages = std::vector<uint8_t, PageAllocator<uint8_t>>;

// Where messages lie, and how a GPU's memory is registered: all devices can do that, and the other
// way they cannot.
enum class FakeMemory { host, byAddress, byDmabuf };

struct HostOptions {
  size_t nQueues = 1;
  bool splits = false;
  std::chrono::milliseconds portPatience{0};
  int devicesPerHost = 2;
  FakeOptions provider = {.nDevices = 4};
  FakeMemory memory = FakeMemory::host;
  std::function<void(Settings&)> change = [](Settings&) {};  // at last
};

class VerbsHosts {
 public:
  explicit VerbsHosts(const HostOptions& options = {});
  ~VerbsHosts();

  // Goes through set-up; false where it does not come to be.
  bool connect();

  const FakeMemory memory;
  FakeSysfs sysfs;
  FakeProvider provider;
  MemoryDevice sockets;
  Caretaker caretaker;  // of both, without a thread
  Devices sending;
  Devices receiving;
  std::unique_ptr<SendConnection> sender;
  std::unique_ptr<ReceiveConnection> receiver;
};

// Messages of random sizes in groups, sent and received in small random steps; every byte is
// checked, and those beside the buffers.
class Traffic {
 public:
  struct Options {
    uint64_t seed = 1;
    size_t nGroups = 40;
    size_t maxGroup = kMaxGroup;
    size_t maxBytes = 20000;
    bool flushes = true;  // what is received in a GPU's memory
  };

  Traffic(VerbsHosts& hosts, const Options& options);
  ~Traffic();

  // One visit of each side, as NCCL's progress threads make them. False once all is through or an
  // error has ended it.
  bool visit();
  void visitSender();
  // Until then, or so many visits are over, which is a hang.
  void run(size_t mostVisits = 2000000);

  size_t nReceived() const { return nReceived_; }
  bool isComplete() const { return nReceived_ == groups_.size() && nSent_ == messages_.size(); }
  size_t nFlushed() const { return nFlushed_; }
  // What ended each side; empty where nothing did.
  const std::string& sendError() const { return sendError_; }
  const std::string& receiveError() const { return receiveError_; }

 private:
  struct Message {
    size_t group = 0;
    int tag = 0;
    size_t nBytes = 0;
    size_t from = 0;  // in sendMemory_
    size_t to = 0;    // in receiveMemory_
    size_t capacity = 0;
    Request* sending = nullptr;
  };
  struct Group {
    size_t first = 0;  // message
    size_t size = 0;
    std::vector<size_t> order;  // of sending its messages
    Request* receiving = nullptr;
    Request* flushing = nullptr;
    std::array<size_t, kMaxGroup> sizes{};  // once it is received
  };

  void addGroup(const Options& options);
  void fill();
  void postSends();
  void testSends();
  void postReceives();
  void testReceives();
  void testFlushes();
  void flush(Group& group);
  void check(const Group& group);
  void* known(Connection& connection, Pages& memory);
  size_t below(size_t limit) { return random_() % limit; }

  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kUntouched = 0xa5;
  VerbsHosts& hosts_;
  const bool flushes_;
  std::mt19937_64 random_;
  std::vector<Message> messages_;
  std::vector<Group> groups_;
  std::vector<size_t> sendOrder_;
  Pages sendMemory_;
  Pages receiveMemory_;
  void* sendToken_ = nullptr;
  void* receiveToken_ = nullptr;
  size_t sendBytes_ = 0;
  size_t receiveBytes_ = kGuard;
  size_t nextSend_ = 0;
  size_t nextReceive_ = 0;
  size_t nSent_ = 0;
  size_t nReceived_ = 0;
  size_t nFlushed_ = 0;
  std::string sendError_;
  std::string receiveError_;
};

}  // namespace cinch::net::ib
