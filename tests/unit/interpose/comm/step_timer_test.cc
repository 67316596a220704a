#include "interpose/comm/step_timer.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

class StepTimerTest : public testing::Test {
 protected:
  void SetUp() override { test::resetFakes(); }
  void allocate() { ASSERT_TRUE(timer_.allocate(fakeDeviceTable()).ok()); }

  StepTimer timer_;
};

TEST_F(StepTimerTest, TellsWhatTheDeviceTook) {
  allocate();
  timer_.mark(0, nullptr);
  fakeDevice().milliseconds += 1.5;
  timer_.mark(1, nullptr);
  timer_.mark(2, nullptr);
  EXPECT_EQ(timer_.between(0, 1), 1'500'000u);
  EXPECT_EQ(timer_.between(0, 2), 1'500'000u);
  EXPECT_EQ(timer_.between(1, 2), 0u);
  EXPECT_FALSE(timer_.between(2, 3)) << "not made yet";
  EXPECT_FALSE(timer_.isPending(2));
  EXPECT_FALSE(timer_.isPending(3));
}

TEST_F(StepTimerTest, TellsNothingWithoutEvents) {
  timer_.mark(0, nullptr);
  timer_.mark(1, nullptr);
  EXPECT_FALSE(timer_.between(0, 1));
  EXPECT_FALSE(timer_.isPending(1));
}

TEST_F(StepTimerTest, IsPendingUntilTheDeviceIsThere) {
  allocate();
  timer_.mark(0, nullptr);
  fakeDevice().eventsPending = true;
  timer_.mark(1, nullptr);
  EXPECT_TRUE(timer_.isPending(1));
  fakeDevice().eventsPending = false;
  EXPECT_FALSE(timer_.isPending(1));
}

TEST_F(StepTimerTest, KeepsTheLastMarks) {
  allocate();
  constexpr uint64_t n = 3 * StepTimer::kMarks;
  for (uint64_t i = 0; i < n; ++i, fakeDevice().milliseconds += 1) timer_.mark(i, nullptr);
  EXPECT_FALSE(timer_.between(n - StepTimer::kMarks - 1, n - 1)) << "another mark by now";
  EXPECT_EQ(timer_.between(n - StepTimer::kMarks, n - 1), (StepTimer::kMarks - 1) * 1'000'000);
}

TEST_F(StepTimerTest, AMarkMayBeMadeAgain) {
  allocate();
  timer_.mark(0, nullptr);
  timer_.mark(1, nullptr);
  fakeDevice().milliseconds += 2;
  timer_.mark(1, nullptr);
  EXPECT_EQ(timer_.between(0, 1), 2'000'000u);
}

}  // namespace
}  // namespace cinch
