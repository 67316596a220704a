// The threads that move long messages, and look after links while no thread of NCCL does.
//
// Threads that post and test() messages move these themselves, at once. Where there is much to move
// (Link::isBulk) helpers do it in their place: they spin while something moves, then sleep on the
// sockets. Else a helper wakes up now and then, so that a peer's questions are answered while this
// program computes.
#pragma once

#include <atomic>

#include "net_plugin/socket/statistics_file.h"

namespace cinch::net {

class Helpers {
 public:
  // Starts `n` threads, which run until the process ends; `network` and `report` outlive them. At
  // least one is started: with n = 0 it only looks after the links. Fails where the system refuses
  // the first; the others are not needed.
  static Result<Helpers*> start(Network& network, StatisticsFile& report, int n);

  // There is something long to move; `isNew`: since now, or it was here before.
  void wake(bool isNew);
  // For a caller that waits in vain: now and then moves what other links have, since what it waits
  // for may depend on that, and no other thread need come by.
  void lookAround();
  // False where callers have to move it themselves.
  bool doBulk() const { return movers_ > 0; }

 private:
  Helpers(Network& network, StatisticsFile& report, int movers)
      : network_(network), report_(report), movers_(movers) {}
  Result<void> startThread(bool moves, bool ticks);
  void run(bool moves, bool ticks);
  bool moveAll();
  void sleep(bool isBusy);

  Network& network_;
  StatisticsFile& report_;
  const int movers_;
  Socket wakeup_;               // an eventfd
  std::atomic<int> idle_{0};    // helpers that sleep until they are woken
  std::atomic<int> asleep_{0};  // all that sleep, these and those that wait for sockets
  std::atomic<unsigned> waits_{0};
};

}  // namespace cinch::net
