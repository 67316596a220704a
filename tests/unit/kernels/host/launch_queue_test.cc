#include "kernels/host/launch_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

namespace cinch::host {
namespace {

struct HostFunction {
  void* stream;
  void (*function)(void*);
  void* argument;
};
std::deque<HostFunction> pending;
int launchError = 0;

int fakeLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  if (launchError == 0) pending.push_back({stream, function, argument});
  return launchError;
}

std::vector<uint32_t> encodedSlots;
int nReduced = 0, nDecoded = 0;

class LaunchQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    pending.clear();
    encodedSlots.clear();
    nReduced = nDecoded = launchError = 0;
    runtime_.cudaLaunchHostFunc = fakeLaunchHostFunc;
  }

  void runPending() {
    while (!pending.empty()) {
      const HostFunction next = pending.front();
      pending.pop_front();
      next.function(next.argument);
    }
  }

  static EncodeLaunch encodeOf(uint32_t slot) {
    EncodeLaunch launch{};
    launch.call.slot = slot;
    return launch;
  }

  RuntimeSymbols runtime_;
  const HostCodec codec_{
      "fake", [](const EncodeLaunch& launch) { encodedSlots.push_back(launch.call.slot); },
      [](const ReduceLaunch&) { ++nReduced; }, [](const DecodeLaunch&) { ++nDecoded; }};
  LaunchQueue queue_{runtime_, codec_};
};

TEST_F(LaunchQueueTest, RunsLaterOnTheGivenStreamWithItsOwnCopy) {
  int stream;
  EncodeLaunch launch = encodeOf(7);
  EXPECT_EQ(queue_.enqueue(launch, &stream), 0);
  launch.call.slot = 8;
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending[0].stream, &stream);
  EXPECT_TRUE(encodedSlots.empty());
  runPending();
  EXPECT_EQ(encodedSlots, std::vector<uint32_t>{7});
}

TEST_F(LaunchQueueTest, EachKindRunsItsFunction) {
  queue_.enqueue(ReduceLaunch{}, nullptr);
  queue_.enqueue(DecodeLaunch{}, nullptr);
  queue_.enqueue(DecodeLaunch{}, nullptr);
  runPending();
  EXPECT_EQ(nReduced, 1);
  EXPECT_EQ(nDecoded, 2);
  EXPECT_TRUE(encodedSlots.empty());
}

TEST_F(LaunchQueueTest, ManyInFlightKeepTheirOrderAndContent) {
  constexpr uint32_t kLaunches = 1000;
  for (uint32_t slot = 0; slot < kLaunches; ++slot) queue_.enqueue(encodeOf(slot), nullptr);
  runPending();
  ASSERT_EQ(encodedSlots.size(), kLaunches);
  EXPECT_TRUE(std::is_sorted(encodedSlots.begin(), encodedSlots.end()));
}

TEST_F(LaunchQueueTest, RecordsAreUsedAgain) {
  std::set<void*> records;
  for (uint32_t slot = 0; slot < 10000; ++slot) {
    queue_.enqueue(encodeOf(slot), nullptr);
    records.insert(pending.front().argument);
    runPending();
  }
  EXPECT_LE(records.size(), 64u);
}

TEST_F(LaunchQueueTest, AFailedLaunchIsReportedAndLeavesNothingBehind) {
  launchError = 719;
  for (uint32_t slot = 0; slot < 1000; ++slot)
    EXPECT_EQ(queue_.enqueue(encodeOf(slot), nullptr), 719);
  launchError = 0;
  std::set<void*> records;
  for (uint32_t slot = 0; slot < 64; ++slot) queue_.enqueue(encodeOf(slot), nullptr);
  for (const HostFunction& each : pending) records.insert(each.argument);
  EXPECT_EQ(records.size(), 64u);
  runPending();
  EXPECT_EQ(encodedSlots.size(), 64u);
}

}  // namespace
}  // namespace cinch::host
