#include "net_plugin/socket/helpers.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "common/signals_blocked.h"

namespace cinch::net {
namespace {

constexpr auto kSpin = std::chrono::microseconds(30);
constexpr int kIdleMs = 50;
constexpr int kBusyMs = 5;
constexpr unsigned kLookAroundEvery = 8;
constexpr auto kTickEvery = std::chrono::milliseconds(5);

}  // namespace

Result<Helpers*> Helpers::start(Network& network, StatisticsFile& report, int n) {
  std::unique_ptr<Helpers> helpers(new Helpers(network, report, n));
  helpers->wakeup_ = Socket(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (helpers->wakeup_.fd() < 0) {
    return errorf(Status::systemError, "no event descriptor for the helpers: %s", strerror(errno));
  }
  const SignalsBlocked blocked;
  CINCH_TRY(helpers->startThread(n > 0, true));
  for (int i = 1; i < n; ++i) {
    const Result<void> started = helpers->startThread(true, false);
    if (started) continue;
    CINCH_NET_WARN("%d of %d helpers (CINCH_NET_THREADS) have to do: %s", i, n,
                   started.error().message.c_str());
    break;
  }
  // Never destroyed: its threads end with the process.
  return helpers.release();
}

Result<void> Helpers::startThread(bool moves, bool ticks) {
  try {
    std::thread([=, this] { run(moves, ticks); }).detach();
    return {};
  } catch (const std::system_error& error) {
    return errorf(Status::systemError, "the system gives the net plugin no helper thread: %s",
                  error.what());
  }
}

void Helpers::wake(bool isNew) {
  if ((isNew ? asleep_ : idle_).load() == 0) return;
  const uint64_t one = 1;
  (void)!write(wakeup_.fd(), &one, sizeof one);  // full: somebody has been woken already
}

void Helpers::lookAround() {
  if (waits_.fetch_add(1, std::memory_order_relaxed) % kLookAroundEvery == 0) moveAll();
}

bool Helpers::moveAll() {
  bool moved = false;
  for (const std::shared_ptr<Link>& link : network_.links()) moved = link->pump() || moved;
  return moved;
}

void Helpers::run(bool moves, bool ticks) {
  pthread_setname_np(pthread_self(), "cinch-net");
  Clock::time_point lastMove = Clock::now();
  Clock::time_point lastTick{};
  while (true) {
    const Clock::time_point now = Clock::now();
    if (ticks && now - lastTick >= kTickEvery) {
      network_.tick();
      report_.writeIfDue(now);
      lastTick = now;
    }
    bool isBusy = false;
    for (const std::shared_ptr<Link>& link : network_.links()) isBusy = isBusy || link->isBulk();
    if (moveAll()) lastMove = now;
    if (moves && isBusy && now - lastMove < kSpin) {
      std::this_thread::yield();
    } else {
      sleep(moves && isBusy);
    }
  }
}

void Helpers::sleep(bool isBusy) {
  std::vector<std::pair<int, short>> wanted;
  network_.addPollTargets(&wanted);
  if (isBusy) {
    for (const std::shared_ptr<Link>& link : network_.links()) link->addPollTargets(&wanted);
  }
  std::vector<pollfd> targets{{wakeup_.fd(), POLLIN, 0}};
  for (const auto& [descriptor, events] : wanted) targets.push_back({descriptor, events, 0});
  // Who has something new from here on wakes us; what came before is seen now.
  ++asleep_;
  if (!isBusy) ++idle_;
  if (!moveAll()) poll(targets.data(), targets.size(), isBusy ? kBusyMs : kIdleMs);
  if (!isBusy) --idle_;
  --asleep_;
  uint64_t count = 0;
  (void)!read(wakeup_.fd(), &count, sizeof count);
}

}  // namespace cinch::net
