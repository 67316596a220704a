// InfiniBand in one process: devices, queue pairs and keys behind the table of verbs, with time of
// its own and faults by seed. Both ends of a connection use the same provider.
//
// Nothing happens when work is posted. Every poll of any completion queue is a step, in which each
// queue pair may move its oldest work on: in order within a pair, in any order between pairs. Data
// lands in pieces, in any order, over several steps; a completion says what the real one says. What
// is written into the memory of a GPU stays out of sight until the device that wrote it reads
// there, or its queue pairs end. One provider lives at a time. Thread-safe.
#pragma once

#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "net_plugin/ib/verbs_api.h"

namespace cinch::net::ib {

struct FakeOptions {
  uint64_t seed = 1;
  int nDevices = 2;
  int maxQueueEntries = 4096;
  int maxCompletions = 1 << 16;
  uint32_t maxInline = 64;
  int maxDelay = 3;               // steps before a work request begins to move
  int patience = 40;              // steps without an answer until retries are over
  double postFailure = 0;         // that a queue says that it is full
  double queueFailure = 0;        // of each work request: its queue pair fails with it
  bool relaxesOrdering = true;    // has regMrIova2
  bool resolvesGpus = false;      // takes a GPU's memory by its address
  int dmabufError = EOPNOTSUPP;   // of registering any dma-buf; 0: none
  std::map<int, uint32_t> ece{};  // by device: what it can do beyond the standard; none: no ECE
  int eceStranger = -1;           // the device of another vendor
  int eceError = 0;               // of setting it
  bool isOld = false;             // has neither regDmabufMr nor ECE
};

class FakeProvider {
 public:
  explicit FakeProvider(const FakeOptions& options);
  ~FakeProvider();
  FakeProvider(const FakeProvider&) = delete;
  FakeProvider& operator=(const FakeProvider&) = delete;

  const VerbsApi& api() const { return api_; }
  void step();

  // Faults. Nothing goes in or out of a port that is down; a device that was killed stays dead.
  void takeDown(int device);
  void bringUp(int device);
  void killDevice(int device);
  // All queue pairs of the device complete what is under way with this status.
  void failQueues(int device, ibv_wc_status status);
  // The completion queues of the device lose what comes next.
  void overrun(int device);
  // From now on; `device`: whose queue pairs fail, -1 for all.
  void setFaults(double postFailure, double queueFailure, int device = -1);

  // Registrations fail with this errno from now on; 0: they do not.
  void refuseRegions(int why);
  // Reads of the device's queue pairs fail like this from now on; IBV_WC_SUCCESS: they do not.
  void failReads(int device, ibv_wc_status status);

  // Makes this memory a GPU's, until forgetGpus(). As a dma-buf: gives its descriptor.
  void addGpu(const void* data, size_t nBytes);
  int exportDmabuf(const void* data, size_t nBytes);
  void forgetGpus();

  struct Known {
    const void* data;
    size_t nBytes;
    int access;
  };
  std::vector<Known> knownRegions() const;
  size_t nForkInits() const { return nForkInits_; }
  // What the queue pairs of the device that are ready use of ECE.
  std::vector<uint32_t> eceOf(int device) const;
  size_t nReads(int device) const;  // by queue pairs of the device

  uint64_t bytesWritten(int device) const;  // by queue pairs of the device
  // What was made and not destroyed; empty where nothing was.
  std::string leftovers() const;

  struct Device;
  struct Context;
  struct Domain;
  struct Region;
  struct Completions;
  struct Pair;
  struct Work;

 private:
  friend struct FakeCalls;
  using Lock = std::lock_guard<std::mutex>;

  void stepLocked();
  void advance(Pair& pair);
  void flush(Pair& pair);
  void move(Pair& pair, Work& work);
  bool place(Pair& pair, Work& work);
  bool announce(Pair& pair, Pair& peer, const Work& work);
  Pair* peerOf(const Pair& pair);
  bool isGpu(uint64_t address) const;
  uint32_t eceKnownTo(const Device& device) const;
  void land(Device& device, uint64_t address, const uint8_t* bytes, size_t nBytes);
  static void drain(Device& device);
  Region* regionOf(uint64_t address, size_t nBytes, uint32_t key, int access, const ibv_pd* domain);
  void complete(Pair& pair, const Work& work, ibv_wc_status status);
  void fail(Pair& pair, ibv_wc_status status);
  void push(Completions& queue, Pair& pair, ibv_wc completion, size_t frees, bool isSend);
  void raise(Device& device, ibv_event_type type, ibv_cq* queue = nullptr);
  bool chance(double probability);
  bool failsNow(const Pair& pair);
  size_t below(size_t limit);

  const FakeOptions options_;
  VerbsApi api_;
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  double postFailure_;
  double queueFailure_;
  int faultyDevice_ = -1;
  uint32_t nextKey_ = 0x1000;
  uint32_t nextPair_ = 0x100;
  int refusal_ = 0;
  size_t nForkInits_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> gpuMemory_;  // begin and end
  std::vector<std::pair<uint64_t, uint64_t>> dmabufs_;    // the same, by descriptor
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<std::unique_ptr<Domain>> domains_;
  std::map<uint32_t, std::unique_ptr<Region>> regions_;  // by key
  std::vector<std::unique_ptr<Completions>> completions_;
  std::map<uint32_t, std::unique_ptr<Pair>> pairs_;  // by number
};

}  // namespace cinch::net::ib
