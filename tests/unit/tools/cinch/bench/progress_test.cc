#include "tools/cinch/bench/progress.h"

#include <gtest/gtest.h>

namespace cinch::bench {
namespace {

TEST(Progress, LineShowsTheShare) {
  EXPECT_EQ(progressLine(1, 3, "8 B"), "[##########--------------------] 1/3 8 B");
  EXPECT_EQ(progressLine(3, 3, "x"), "[##############################] 3/3 x");
  EXPECT_EQ(progressLine(0, 0, "x"), "[##############################] 0/0 x");
}

}  // namespace
}  // namespace cinch::bench
