#include "tuner_plugin/cost_writer.h"

#include <chrono>
#include <exception>
#include <filesystem>
#include <limits>

#include "common/param.h"
#include "common/replace_file.h"
#include "common/signals_blocked.h"
#include "tuner_plugin/log.h"

namespace cinch::tuner {
namespace {

constexpr auto kInterval = std::chrono::seconds(1);
constexpr size_t kMaxShapes = 64;

}  // namespace

CostWriter::~CostWriter() {
  {
    const std::lock_guard lock(mutex_);
    users_ = 0;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

CostStore* CostWriter::acquire(uint64_t nRanks, uint64_t nNodes) noexcept {
  constexpr uint64_t kMaxInt = std::numeric_limits<int>::max();
  const bool isShape = nNodes > 0 && nNodes <= nRanks && nRanks <= kMaxInt;
  if (folder_.empty() || !isShape) return nullptr;
  try {
    const std::lock_guard lock(mutex_);
    CostStore* const store = storeOf(static_cast<int>(nRanks), static_cast<int>(nNodes));
    if (store == nullptr) return nullptr;
    if (!thread_.joinable()) {
      const SignalsBlocked blocked;
      thread_ = std::thread([this] { run(); });
    }
    ++users_;
    return store;
  } catch (const std::exception& exception) {
    CINCH_TUNER_WARN("NCCL's cost tables are not kept: %s", exception.what());
    return nullptr;
  }
}

// Null where there are more shapes than anyone needs.
CostStore* CostWriter::storeOf(int nRanks, int nNodes) {
  const std::string path = costTablePath(folder_, nRanks, nNodes);
  for (const File& file : files_)
    if (file.path == path) return file.store.get();
  if (files_.size() == kMaxShapes) return nullptr;
  files_.push_back({std::make_unique<CostStore>(nRanks, nNodes), path});
  return files_.back().store.get();
}

void CostWriter::release(CostStore* store) {
  if (store == nullptr) return;
  std::thread ended;
  {
    const std::lock_guard lock(mutex_);
    if (--users_ == 0) ended.swap(thread_);
  }
  changed_.notify_all();
  if (ended.joinable()) ended.join();
}

void CostWriter::run() {
  std::unique_lock lock(mutex_);
  const std::thread::id self = std::this_thread::get_id();
  // Another thread takes over where a communicator is made while this one is on its way out.
  const auto isOver = [&] { return users_ == 0 || thread_.get_id() != self; };
  while (!changed_.wait_for(lock, kInterval, isOver)) writeAll(lock);
  writeAll(lock);
}

// Nothing may leave a thread of a program that knows nothing of it.
Result<void> CostWriter::write(const std::string& path, const CostStore& store) {
  const std::lock_guard lock(diskMutex_);
  try {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    return replaceFile(path, formatCostTable(store.table()));  // says what is wrong with the folder
  } catch (const std::exception& exception) {
    return errorf(Status::systemError, "cannot write %s: %s", path.c_str(), exception.what());
  }
}

// The disk is waited for without the lock.
void CostWriter::writeAll(std::unique_lock<std::mutex>& lock) {
  for (File& file : files_) {
    const size_t count = file.store->count();
    if (count == file.nWritten) continue;
    file.nWritten = count;
    lock.unlock();
    const Result<void> written = write(file.path, *file.store);
    lock.lock();
    if (written || std::exchange(hasFailed_, true)) continue;
    CINCH_TUNER_WARN("%s (CINCH_CACHE_DIR says where NCCL's cost tables go)",
                     written.error().message.c_str());
  }
}

CostWriter& processCostWriter() {
  static auto* const writer = new CostWriter(cacheFolder(processParams().params));
  return *writer;
}

}  // namespace cinch::tuner
