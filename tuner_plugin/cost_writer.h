// Keeps the cost tables of this process in files, from a thread of its own: the threads that NCCL
// asks on must not wait for a disk.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tuner_plugin/cost_store.h"

namespace cinch::tuner {

class CostWriter {
 public:
  // Files go into `folder`, which is made; empty: nothing is ever written.
  explicit CostWriter(std::string folder) : folder_(std::move(folder)) {}
  ~CostWriter();
  CostWriter(const CostWriter&) = delete;
  CostWriter& operator=(const CostWriter&) = delete;

  // The store of all communicators of this shape, with a thread that writes it; null where nothing
  // is written, which must not change what a rank chooses. Goes back by release().
  CostStore* acquire(uint64_t nRanks, uint64_t nNodes) noexcept;
  // Writes what is new; after the last, the thread ends.
  void release(CostStore* store);

 private:
  struct File {
    std::unique_ptr<CostStore> store;
    std::string path;
    size_t nWritten = 0;
  };

  CostStore* storeOf(int nRanks, int nNodes);
  void run();
  void writeAll(std::unique_lock<std::mutex>& lock);
  Result<void> write(const std::string& path, const CostStore& store);

  const std::string folder_;
  std::mutex diskMutex_;  // of who writes: one thread may still be when the next has begun
  std::mutex mutex_;      // of all below
  std::condition_variable changed_;
  std::list<File> files_;
  size_t users_ = 0;
  bool hasFailed_ = false;  // which is said once
  std::thread thread_;
};

// That of this process, in the folder of CINCH_CACHE_DIR. Never destroyed.
CostWriter& processCostWriter();

}  // namespace cinch::tuner
