#include "interpose/agree/control_reader.h"

#include <pthread.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "common/fork_once.h"
#include "common/signals_blocked.h"

namespace cinch {
namespace {

constexpr int kReaderEventsAtOnce = 64;

std::atomic<uint64_t> forks{0};

// Guards the process's reader. Held over a fork, so that a child never finds it locked by a thread
// that is not there.
std::mutex readerMutex;
ControlReader* readerOfProcess = nullptr;  // never destroyed: its thread runs until the end
uint64_t readerGeneration = 0;

void lockReader() {
  readerMutex.lock();
}
void unlockReader() {
  readerMutex.unlock();
}
void countFork() {
  forks.fetch_add(1, std::memory_order_relaxed);
  readerMutex.unlock();
}

Error readerError(const char* what, int number) {
  return errorf(Status::systemError, "control channel: %s: %s", what, strerrordesc_np(number));
}

Result<void> controlPoller(const Socket& poller, int operation, int fd, uint64_t id,
                           uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(poller.fd(), operation, fd, &event) == 0) return {};
  return readerError("epoll", errno);
}

}  // namespace

uint64_t forkGeneration() {
  return forks.load(std::memory_order_relaxed);
}

Result<ControlReader*> ControlReader::ofProcess() {
  if (!handleForks<lockReader, unlockReader, countFork>())
    return readerError("cannot watch for forks", ENOMEM);
  std::lock_guard lock(readerMutex);
  const bool usable =
      readerOfProcess != nullptr && readerGeneration == forkGeneration() && !readerOfProcess->lost_;
  if (usable) return readerOfProcess;
  auto started = start();
  CINCH_TRY(started);
  readerOfProcess = started.value();
  readerGeneration = forkGeneration();
  return readerOfProcess;
}

Result<ControlReader*> ControlReader::start() {
  Socket poller(epoll_create1(EPOLL_CLOEXEC));
  if (poller.fd() < 0) return readerError("epoll", errno);
  std::unique_ptr<ControlReader> reader(new ControlReader(std::move(poller)));
  SignalsBlocked blocked;
  try {
    std::thread thread(&ControlReader::run, reader.get());
    pthread_setname_np(thread.native_handle(), "cinch-control");
    thread.detach();
  } catch (const std::system_error&) {
    return errorf(Status::systemError, "control channel: cannot start a thread");
  }
  return reader.release();
}

Result<uint64_t> ControlReader::add(int fd, std::shared_ptr<Connection> connection) {
  std::lock_guard lock(mutex_);
  if (lost_) return errorf(Status::systemError, "control channel: its thread has ended");
  const uint64_t id = nextId_++;
  CINCH_TRY(controlPoller(poller_, EPOLL_CTL_ADD, fd, id, EPOLLIN));
  watched_.emplace(id, Watched{fd, std::move(connection)});
  return id;
}

Result<void> ControlReader::watchOutput(uint64_t id, int fd, bool on) {
  return controlPoller(poller_, EPOLL_CTL_MOD, fd, id, on ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void ControlReader::run() {
  for (Deadline nextTick = deadlineIn(kTickTime);;) {
    epoll_event events[kReaderEventsAtOnce];
    const int n = epoll_wait(poller_.fd(), events, kReaderEventsAtOnce, pollTimeout(nextTick));
    if (n < 0 && errno != EINTR) return loseAll(strerrordesc_np(errno));
    for (int i = 0; i < n; ++i) handle(events[i].data.u64, events[i].events);
    if (Clock::now() < nextTick) continue;
    tick();
    nextTick = deadlineIn(kTickTime);
  }
}

void ControlReader::tick() {
  std::map<uint64_t, Watched> watched;
  {
    const std::lock_guard lock(mutex_);
    watched = watched_;
  }
  for (const auto& [id, each] : watched) each.connection->onTick();
}

ControlReader::Watched ControlReader::find(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(id);
  return found == watched_.end() ? Watched{} : found->second;
}

void ControlReader::handle(uint64_t id, uint32_t events) {
  const Watched watched = find(id);
  if (watched.connection == nullptr) return;
  if (events & EPOLLOUT) watched.connection->onWritable();
  const bool isReadable = events & ~static_cast<uint32_t>(EPOLLOUT);
  if (!isReadable || watched.connection->onReadable()) return;
  // Explicitly, as a forked child may hold a copy of the descriptor: closing is not enough.
  static_cast<void>(controlPoller(poller_, EPOLL_CTL_DEL, watched.fd, id, 0));
  const std::lock_guard lock(mutex_);
  watched_.erase(id);
}

void ControlReader::loseAll(const char* cause) {
  std::map<uint64_t, Watched> watched;
  {
    const std::lock_guard lock(mutex_);
    lost_ = true;
    watched.swap(watched_);
  }
  for (const auto& [id, each] : watched) each.connection->onLost(cause);
}

}  // namespace cinch
