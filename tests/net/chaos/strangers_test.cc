// Connections from strangers, hundreds at a time: peers go on, and nothing of the strangers stays.
#include "tests/net/chaos/strangers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/net/chaos/conductor.h"

namespace cinch::chaos {
namespace {

// More than the plugin listens to at a time.
constexpr int kAtOnce = 600;
constexpr int kInAll = 3000;
constexpr int kMostOfLinks = 8;

void runRight(Conductor& conductor, const Plan& plan) {
  ASSERT_NO_FATAL_FAILURE(conductor.run(plan));
  for (int side = 0; side < kSides; ++side) {
    EXPECT_EQ(conductor.tally(side).nErrors, 0) << conductor.tally(side).firstError;
    EXPECT_EQ(conductor.tally(side).nMessages, plan.nLanes * plan.nLives * plan.nMessages);
  }
}

TEST(Strangers, DisturbNobody) {
  Conductor conductor;
  Progress& strangers = *makeProgress();
  const int empty[] = {conductor.measure(0).descriptors, conductor.measure(1).descriptors};
  const int threads = conductor.measure(0).threads;
  std::unique_ptr<Process> flood;
  conductor.onHandle = [&](const Handle& handle) {
    if (flood == nullptr) flood = floodWithStrangers(handle, kAtOnce, strangers);
  };
  Plan plan = {.seed = 13, .nLanes = kMaxLanes, .nLives = 3, .nMessages = 20};
  int most = 0;
  while (strangers.nDone < kInAll) {
    ASSERT_NO_FATAL_FAILURE(runRight(conductor, plan));
    ASSERT_FALSE(flood->ended()) << describeEnd(*flood->ended());
    ++plan.seed;
    most = std::max({most, conductor.measure(0).descriptors, conductor.measure(1).descriptors});
  }
  EXPECT_GT(most, empty[0] + kMostOfLinks + 100) << "hardly a stranger was let in";
  flood.reset();
  for (int side = 0; side < kSides; ++side) {
    const Resources rest = conductor.settle(side, empty[side] + kMostOfLinks);
    EXPECT_EQ(rest.threads, threads);
  }
  ASSERT_NO_FATAL_FAILURE(runRight(conductor, plan));
}

}  // namespace
}  // namespace cinch::chaos
