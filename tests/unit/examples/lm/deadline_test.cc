#include "examples/lm/deadline.h"

#include <gtest/gtest.h>

#include <chrono>

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

TEST(Deadline, LetsThoseGoThatAreInTime) {
  for (int i = 0; i < 100; ++i) const Deadline deadline("nothing", 3600);
}

}  // namespace
}  // namespace lm
