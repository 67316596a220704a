#include "interpose/agree/group_marks.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

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

// Never destroyed: control threads run until the process ends. A forked child has neither their
// marks nor the groups of its parent's other threads.
Process& process() {
  static auto& it = *new Process;
  static const int isHandled =
      pthread_atfork([] { process().mutex.lock(); }, [] { process().mutex.unlock(); },
                     [] {
                       process().mutex.unlock();
                       process().nMarks.store(0);
                       process().nGroups.store(0);
                       nOfThread = 0;
                     });
  static_cast<void>(isHandled);
  return it;
}

}  // namespace

bool addMark(bool mustBe) {
  process().nMarks.fetch_add(1);
  if (mustBe || process().nGroups.load() <= 0) return true;
  removeMark();
  return false;
}

void removeMark() {
  Process& it = process();
  const std::lock_guard lock(it.mutex);
  if (it.nMarks.fetch_sub(1) == 1) it.unmarked.notify_all();
}

void enterGroup() {
  Process& it = process();
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
