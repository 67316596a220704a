// A peer that is stopped: for less than CINCH_NET_TIMEOUT it is only slow, for longer it is lost.
#include <gtest/gtest.h>

#include "tests/net/chaos/conductor.h"

namespace cinch::chaos {
namespace {

// CINCH_NET_TIMEOUT of this test is 2 s.
constexpr std::chrono::milliseconds kShort{1500};
constexpr std::chrono::milliseconds kLong{5000};

// The side that is stopped, with many messages under way in both directions.
class StoppedPeer : public testing::TestWithParam<int> {
 protected:
  static constexpr Plan kPlan = {.seed = 7, .nLanes = kMaxLanes, .nMessages = 60};

  void stopFor(std::chrono::milliseconds length) {
    conductor_.run(kPlan, {.stops = {{kPlan.nMessages, GetParam(), length}}});
  }

  Conductor conductor_;
};

TEST_P(StoppedPeer, ResumesWithinTheTimeout) {
  ASSERT_NO_FATAL_FAILURE(stopFor(kShort));
  for (int side = 0; side < kSides; ++side) {
    EXPECT_EQ(conductor_.tally(side).nErrors, 0) << conductor_.tally(side).firstError;
    EXPECT_EQ(conductor_.tally(side).nMessages, kPlan.nLanes * kPlan.nMessages);
  }
}

TEST_P(StoppedPeer, IsLostAfterIt) {
  ASSERT_NO_FATAL_FAILURE(stopFor(kLong));
  for (int side = 0; side < kSides; ++side) {
    EXPECT_GT(conductor_.tally(side).nErrors, 0) << "side " << side;
  }
  const std::string reason = conductor_.tally(1 - GetParam()).firstError;
  EXPECT_NE(reason.find("no sign of life for 2 s (CINCH_NET_TIMEOUT)"), std::string::npos)
      << reason;
}

INSTANTIATE_TEST_SUITE_P(Sides, StoppedPeer, testing::Values(0, 1));

}  // namespace
}  // namespace cinch::chaos
