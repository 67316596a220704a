#include "tests/net/chaos/worker.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "tests/net/chaos/failure.h"
#include "tests/net/chaos/lane.h"

namespace cinch::chaos {
namespace {

// A child that nobody ends, because the test has died, ends itself.
constexpr unsigned kLongestLife = 120;  // seconds

[[noreturn]] void runForked(Fork fork) {
  if (fork == Fork::exits) exit(0);
  if (fork == Fork::executes) execl("/bin/true", "true", nullptr);
  alarm(kLongestLife);
  while (true) pause();
}

class Round {
 public:
  Round(Net& net, const Post& post, const Letter& order, int side, Progress& progress)
      : post_(post), plan_(order.plan), number_(order.round), side_(side), progress_(progress) {
    progress.reset();
    for (int i = 0; i < plan_.nLanes; ++i) {
      lanes_.emplace_back(net, post, plan_, number_, i, side, progress.lanes[i]);
    }
  }

  void run() {
    while (!isOver()) {
      while (const std::optional<Letter> letter = post_.receive()) deliver(*letter);
      bool moved = false;
      for (Lane& lane : lanes_) moved = lane.step() || moved;
      countDone();
      if (!moved) sched_yield();
    }
    post_.send({.kind = Letter::Kind::finished, .round = number_, .tally = tally()});
  }

 private:
  bool isOver() const {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& it) { return it.isOver(); });
  }

  void deliver(const Letter& letter) {
    if (letter.round == number_ && letter.lane < plan_.nLanes) lanes_[letter.lane].take(letter);
  }

  void countDone() {
    int nDone = 0;
    for (const Lane& lane : lanes_) nDone += lane.nDone();
    progress_.nDone = nDone;
    const int closesAfter = plan_.closesAfter[side_];
    if (closesAfter != kNever && nDone >= closesAfter) {
      for (Lane& lane : lanes_) lane.close();
    }
    const bool isHalfWay = 2 * nDone >= plan_.nLanes * plan_.nLives * plan_.nMessages;
    if (plan_.fork != Fork::none && side_ == 1 && isHalfWay && !hasForked_) forkChild();
  }

  void forkChild() {
    hasForked_ = true;
    const pid_t child = fork();
    CINCH_CHECK(child >= 0, "cannot fork");
    if (child == 0) runForked(plan_.fork);
    post_.send({.kind = Letter::Kind::child, .round = number_, .pid = child});
    if (plan_.fork == Fork::lives) return;
    if (plan_.fork == Fork::isKilled) kill(child, SIGKILL);
    int status = 0;
    CINCH_CHECK(waitpid(child, &status, 0) == child, "the child is gone");
    CINCH_CHECK(plan_.fork == Fork::isKilled || status == 0, "the child ended with %#x", status);
  }

  Tally tally() const {
    Tally tally;
    for (const Lane& lane : lanes_) {
      tally.nMessages += lane.nDone();
      tally.nWhole += lane.nDone() == plan_.nLives * plan_.nMessages;
      if (!lane.error()) continue;
      if (tally.nErrors++ > 0) continue;
      snprintf(tally.firstError, sizeof tally.firstError, "%s", lane.error()->c_str());
    }
    return tally;
  }

  const Post& post_;
  const Plan plan_;
  const int number_;
  const int side_;
  Progress& progress_;
  std::deque<Lane> lanes_;
  bool hasForked_ = false;
};

}  // namespace

void runWorker(int side, const Post& post, Progress& progress) {
  Net net(NET_PLUGIN_PATH);
  while (const std::optional<Letter> letter = post.wait()) {
    if (letter->kind == Letter::Kind::retire) return;
    if (letter->kind == Letter::Kind::begin) Round(net, post, *letter, side, progress).run();
    if (letter->kind == Letter::Kind::measure) {
      post.send({.kind = Letter::Kind::measured, .resources = measureResources()});
    }
  }
  fail("the test is gone");
}

}  // namespace cinch::chaos
