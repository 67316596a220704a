// A process with connections forks, as loaders of data do: its connections go on, and a child that
// lives on does not keep them alive when it dies itself.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/net/chaos/conductor.h"

namespace cinch::chaos {
namespace {

constexpr Plan kPlan = {.seed = 11, .nLanes = kMaxLanes, .nMessages = 60};

Plan planWith(Fork fork) {
  Plan plan = kPlan;
  plan.fork = fork;
  return plan;
}

class ForkTest : public testing::Test {
 protected:
  void expectAllRight() {
    for (int side = 0; side < kSides; ++side) {
      EXPECT_EQ(conductor_.tally(side).nErrors, 0) << conductor_.tally(side).firstError;
      EXPECT_EQ(conductor_.tally(side).nMessages, kPlan.nLanes * kPlan.nMessages);
    }
  }

  Conductor conductor_;
};

class ForkEnds : public ForkTest, public testing::WithParamInterface<Fork> {};

TEST_P(ForkEnds, ConnectionsGoOn) {
  ASSERT_NO_FATAL_FAILURE(conductor_.run(planWith(GetParam())));
  EXPECT_NE(conductor_.forked(), 0) << "nothing was forked";
  expectAllRight();
  ASSERT_NO_FATAL_FAILURE(conductor_.run(kPlan));
  expectAllRight();
}

INSTANTIATE_TEST_SUITE_P(Ends, ForkEnds,
                         testing::Values(Fork::exits, Fork::isKilled, Fork::executes));

// The child holds all descriptors of its parent, so that no connection of TCP ends: silence does
// it.
TEST_F(ForkTest, AChildThatLivesOnDoesNotHideItsParentsDeath) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  Plan plan = planWith(Fork::lives);
  plan.nMessages = 400;
  const int kills = kSides * plan.nLanes * plan.nMessages * 3 / 4;
  ASSERT_NO_FATAL_FAILURE(conductor_.run(plan, {.killAfter = kills}));
  const pid_t child = conductor_.forked();
  ASSERT_NE(child, 0) << "nothing was forked";
  EXPECT_EQ(kill(child, 0), 0) << "the child did not live on";
  // A lane may have been ahead of the others, and done before the death.
  EXPECT_GT(conductor_.tally(0).nErrors, 0);
  EXPECT_EQ(conductor_.tally(0).nErrors, plan.nLanes - conductor_.tally(0).nWhole);
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  conductor_.replacePeer();
  ASSERT_NO_FATAL_FAILURE(conductor_.run(kPlan));
  expectAllRight();
}

}  // namespace
}  // namespace cinch::chaos
