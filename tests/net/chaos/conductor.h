// Two processes that exchange messages over the plugin, and what befalls them meanwhile.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "tests/net/chaos/process.h"
#include "tests/unit/net_plugin/socket/faulty_path.h"

namespace cinch::chaos {

using Clock = std::chrono::steady_clock;

// Points in time are counts of messages that both sides together have done.
struct Stop {
  int after = 0;
  int side = 0;
  std::chrono::milliseconds length{};
};

struct Events {
  std::vector<Stop> stops{};
  int killAfter = kNever;  // side 1
};

class Conductor {
 public:
  Conductor();

  // A new process takes the place of side 1. `faults`: of the network between the two from now on;
  // null: there is none in between.
  void replacePeer(const net::Faults* faults = nullptr, uint32_t seed = 0);
  // Tells side 1 to end, and waits for it.
  void retirePeer();

  // A round, from its beginning until all lanes of the processes that are left are over. Fails the
  // test where a process hangs, or ends by itself.
  void run(const Plan& plan, const Events& events = {});
  // Called whenever the way to a listener becomes known, before the peer does.
  std::function<void(const Handle&)> onHandle;

  Process& side(int side) { return *sides_[side]; }
  // Of the last round.
  const Tally& tally(int side) const { return *tallies_[side]; }
  int nDone() const;
  pid_t forked() const { return forked_; }
  int nFaults() const;

  // What side `side` holds between two rounds.
  Resources measure(int side);
  // Measures until there are no more than so many descriptors; fails the test where that takes too
  // long.
  Resources settle(int side, int mostDescriptors);

 private:
  void start(int side);
  void step();
  void deliver(int from, Letter letter);
  void leadAstray(int listener, Handle& handle);
  void conduct();
  void conductStop(const Stop& stop);
  void killPeer();
  void checkAlive();
  bool isOver() const;
  std::string whereabouts() const;

  std::array<Progress*, kSides> progress_;
  std::array<std::unique_ptr<Process>, kSides> sides_;
  const net::Faults* faults_ = nullptr;
  uint32_t faultSeed_ = 0;
  std::array<std::unique_ptr<net::FaultyPath>, kSides> paths_;  // to each side's listener
  int nFaultsBefore_ = 0;

  int round_ = 0;
  Plan plan_;
  Events events_;
  size_t nStopped_ = 0;                               // of the stops
  std::array<Clock::time_point, kSides> resumeAt_{};  // where it is stopped
  Clock::time_point killedAt_{};
  pid_t forked_ = 0;
  std::array<std::optional<Tally>, kSides> tallies_;
};

}  // namespace cinch::chaos
