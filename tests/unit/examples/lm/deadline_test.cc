#include "examples/lm/deadline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

namespace lm {
namespace {

TEST(DeadlineDeathTest, EndsTheProcessAndNamesTheCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Deadline deadline("ncclCommInitRank", 1);
        std::this_thread::sleep_for(std::chrono::minutes(10));
      },
      testing::ExitedWithCode(1), "ncclCommInitRank did not end within 1 s");
}

TEST(DeadlineDeathTest, LetsThoseGoThatAreInTime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        for (int i = 0; i < 100; ++i) const Deadline deadline("nothing", 3600);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lm
