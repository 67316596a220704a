#include "interpose/agree/group_marks.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "common/fork_once.h"

namespace cinch {
namespace {

// Control threads that have not answered by then are not going to soon.
constexpr std::chrono::seconds kLongestWait{1};

thread_local int nOfThread = 0;  // groups: one for each NCCL in the process

struct Process {
  std::atomic<int64_t> nGroups{0};
  std::atomic<int64_t> nMarks{0};
  std::mutex mutex;
  std::condition_variable unmarked;
};

// Never destroyed: control threads run until the process ends.
constinit std::atomic<Process*> current{nullptr};

void make() {
  current = new Process;
}

Process& process() {
  forkSafeOnce<make>();
  return *current.load(std::memory_order_relaxed);
}

void lockMarks() {
  process().mutex.lock();
}
void unlockMarks() {
  process().mutex.unlock();
}
// A forked child has neither the marks of its parent's control threads nor the groups of its other
// threads.
void forgetMarks() {
  process().mutex.unlock();
  process().nMarks.store(0);
  process().nGroups.store(0);
  nOfThread = 0;
}

// Before anything is counted: a child of which the handlers know nothing would keep the counts.
Process& processWatched() {
  static_cast<void>(handleForks<lockMarks, unlockMarks, forgetMarks>());
  return process();
}

}  // namespace

bool addMark(bool mustBe) {
  Process& it = processWatched();
  it.nMarks.fetch_add(1);
  if (mustBe || it.nGroups.load() <= 0) return true;
  removeMark();
  return false;
}

void removeMark() {
  Process& it = process();
  const std::lock_guard lock(it.mutex);
  if (it.nMarks.fetch_sub(1) == 1) it.unmarked.notify_all();
}

void enterGroup() {
  Process& it = processWatched();
  ++nOfThread;
  it.nGroups.fetch_add(1);
  if (it.nMarks.load() <= 0) return;
  std::unique_lock lock(it.mutex);
  it.unmarked.wait_for(lock, kLongestWait, [&] { return it.nMarks.load() <= 0; });
}

void leaveGroup() {
  if (nOfThread == 0) return;  // it was opened before this process was forked
  --nOfThread;
  process().nGroups.fetch_sub(1);
}

GroupSuspended::GroupSuspended() : nGroups_(nOfThread) {
  process().nGroups.fetch_sub(nGroups_);
}

GroupSuspended::~GroupSuspended() {
  process().nGroups.fetch_add(nGroups_);
}

}  // namespace cinch
