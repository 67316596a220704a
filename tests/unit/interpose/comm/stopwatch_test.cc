#include "interpose/comm/stopwatch.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

uint64_t hostTime = 0;  // ns

class StopwatchTest : public testing::Test {
 protected:
  void SetUp() override {
    test::resetFakes();
    hostTime = 0;
    ASSERT_TRUE(stopwatch_.allocate(fakeDeviceTable()).ok());
  }
  void time(uint64_t turn, double milliseconds) {
    stopwatch_.start(turn, nullptr);
    fakeDevice().milliseconds += milliseconds;
    stopwatch_.stop(turn, nullptr);
  }

  Stopwatch stopwatch_{[] { return hostTime; }};
};

TEST_F(StopwatchTest, TellsWhatTheDeviceTook) {
  time(0, 1.5);
  time(1, 0);
  time(2, 0.25);
  EXPECT_EQ(stopwatch_.time(0), 1500000u);
  EXPECT_EQ(stopwatch_.time(1), 0u);
  EXPECT_EQ(stopwatch_.time(2), 250000u);
  EXPECT_FALSE(stopwatch_.time(3));
  EXPECT_FALSE(stopwatch_.isRunning(2) || stopwatch_.isRunning(3));
}

TEST_F(StopwatchTest, CountsWhatTheHostTakesToEnqueue) {
  hostTime += 50000;
  stopwatch_.start(3, nullptr);
  fakeDevice().milliseconds += 1;
  hostTime += 7000;
  stopwatch_.stop(3, nullptr);
  hostTime += 90000;
  EXPECT_EQ(stopwatch_.time(3), 1007000u);
}

TEST_F(StopwatchTest, KeepsTheLastLaps) {
  for (uint64_t turn = 0; turn < 3 * Stopwatch::kLaps; ++turn)
    time(turn, static_cast<double>(turn));
  EXPECT_FALSE(stopwatch_.time(2 * Stopwatch::kLaps - 1)) << "another turn's now";
  for (uint64_t turn = 2 * Stopwatch::kLaps; turn < 3 * Stopwatch::kLaps; ++turn)
    EXPECT_EQ(stopwatch_.time(turn), turn * 1000000);
}

TEST_F(StopwatchTest, IsRunningUntilTheDeviceIsThere) {
  stopwatch_.start(5, nullptr);
  EXPECT_TRUE(stopwatch_.isRunning(5));
  EXPECT_FALSE(stopwatch_.time(5));
  fakeDevice().eventsPending = true;
  stopwatch_.stop(5, nullptr);
  EXPECT_TRUE(stopwatch_.isRunning(5));
  fakeDevice().eventsPending = false;
  EXPECT_FALSE(stopwatch_.isRunning(5));
  EXPECT_EQ(stopwatch_.time(5), 0u);
}

TEST_F(StopwatchTest, LapsThatOverlapTellNothing) {
  stopwatch_.start(1, nullptr);
  stopwatch_.start(2, nullptr);
  stopwatch_.stop(1, nullptr);
  stopwatch_.stop(2, nullptr);
  for (const uint64_t turn : {1, 2}) {
    EXPECT_FALSE(stopwatch_.isRunning(turn));
    EXPECT_FALSE(stopwatch_.time(turn));
  }
  for (uint64_t turn = 3; turn < 8; ++turn) stopwatch_.start(turn, nullptr);
  for (uint64_t turn = 3; turn < 8; ++turn) stopwatch_.stop(turn, nullptr);
  for (uint64_t turn = 3; turn < 8; ++turn) EXPECT_FALSE(stopwatch_.time(turn));
  time(8, 1);
  EXPECT_TRUE(stopwatch_.time(8));
}

TEST_F(StopwatchTest, WhatIsGivenUpIsNotWaitedFor) {
  stopwatch_.start(1, nullptr);
  stopwatch_.giveUp(1);
  EXPECT_FALSE(stopwatch_.isRunning(1));
  stopwatch_.stop(1, nullptr);
  EXPECT_FALSE(stopwatch_.time(1));
}

TEST_F(StopwatchTest, ADeviceThatFailsTellsNothing) {
  for (const int failing : {0, 1}) {
    fakeDevice().calls.clear();
    fakeDevice().failAt = failing;
    time(static_cast<uint64_t>(failing), 1);
    EXPECT_FALSE(stopwatch_.isRunning(static_cast<uint64_t>(failing)));
    EXPECT_FALSE(stopwatch_.time(static_cast<uint64_t>(failing)));
    fakeDevice().failAt = -1;
  }
  for (const int failing : {3, 4}) {
    Stopwatch without;
    fakeDevice().calls.clear();
    fakeDevice().failAt = failing;
    EXPECT_FALSE(without.allocate(fakeDeviceTable()).ok());
    fakeDevice().failAt = -1;
    for (uint64_t turn = 0; turn < 4; ++turn) {
      without.start(turn, nullptr);
      without.stop(turn, nullptr);
    }
    EXPECT_FALSE(without.time(3));
  }
}

}  // namespace
}  // namespace cinch
