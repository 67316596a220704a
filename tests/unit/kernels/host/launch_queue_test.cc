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
int launchError = 0, loadError = 0;

int fakeLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  if (launchError == 0) pending.push_back({stream, function, argument});
  return launchError;
}

// The stream that is being captured, and what the graph has been given.
void* capturingStream = nullptr;
int graph;

struct UserObject {
  void* pointer = nullptr;
  void (*destroy)(void*) = nullptr;
  unsigned references = 0;
};
std::deque<UserObject> userObjects;
int createError = 0, retainError = 0;

int fakeGetCaptureInfo(void* stream, int* status, unsigned long long*, void** found, const void***,
                       const void**, size_t*) {
  *status = stream && stream == capturingStream;
  if (*status) *found = &graph;
  return 0;
}

int fakeCreate(void** object, void* pointer, void (*destroy)(void*), unsigned references,
               unsigned) {
  if (createError) return createError;
  userObjects.push_back({pointer, destroy, references});
  *object = &userObjects.back();
  return 0;
}

int fakeRelease(void* object, unsigned count) {
  auto* const released = static_cast<UserObject*>(object);
  released->references -= count;
  if (released->references == 0) released->destroy(released->pointer);
  return 0;
}

// The graph takes over the caller's reference.
int fakeRetain(void* into, void*, unsigned, unsigned) {
  EXPECT_EQ(into, &graph);
  return retainError;
}

std::vector<uint32_t> encodedSlots;
int nReduced = 0, nDecoded = 0, nProbed = 0, nTallied = 0, nSummed = 0;

class LaunchQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    pending.clear();
    encodedSlots.clear();
    nReduced = nDecoded = nProbed = nTallied = nSummed = launchError = loadError = createError =
        retainError = 0;
    capturingStream = nullptr;
    runtime_.cudaLaunchHostFunc = fakeLaunchHostFunc;
    runtime_.cinchEmulatorLoadKernel = [](const void*) { return loadError; };
    runtime_.cudaStreamGetCaptureInfo = fakeGetCaptureInfo;
    runtime_.cudaUserObjectCreate = fakeCreate;
    runtime_.cudaUserObjectRelease = fakeRelease;
    runtime_.cudaGraphRetainUserObject = fakeRetain;
  }
  // The graph is gone. What it did not give back would be a leak.
  void TearDown() override {
    for (UserObject& object : userObjects)
      if (object.references > 0) fakeRelease(&object, object.references);
    userObjects.clear();
  }

  void runPending() {
    while (!pending.empty()) {
      const HostFunction next = pending.front();
      pending.pop_front();
      next.function(next.argument);
    }
  }

  template <class Launch>
  int enqueue(const Launch& launch, void* stream) {
    return queue_.enqueue(std::span(&launch, 1), stream);
  }
  static EncodeLaunch encodeOf(uint32_t slot) {
    EncodeLaunch launch{};
    launch.call.slot = slot;
    return launch;
  }

  RuntimeSymbols runtime_;
  const HostCodec codec_{
      "fake",
      [](const EncodeLaunch& launch) { encodedSlots.push_back(launch.call.slot); },
      [](const ReduceLaunch&) { ++nReduced; },
      [](const DecodeLaunch&) { ++nDecoded; },
      [](const ProbeLaunch&) { ++nProbed; },
      [](const TallyLaunch&) { ++nTallied; },
      [](const SumLaunch&) { ++nSummed; }};
  LaunchQueue queue_{runtime_, codec_};
};

TEST_F(LaunchQueueTest, RunsLaterOnTheGivenStreamWithItsOwnCopy) {
  int stream;
  EncodeLaunch launch = encodeOf(7);
  EXPECT_EQ(enqueue(launch, &stream), 0);
  launch.call.slot = 8;
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending[0].stream, &stream);
  EXPECT_TRUE(encodedSlots.empty());
  runPending();
  EXPECT_EQ(encodedSlots, std::vector<uint32_t>{7});
}

TEST_F(LaunchQueueTest, EachKindRunsItsFunction) {
  enqueue(ReduceLaunch{}, nullptr);
  enqueue(DecodeLaunch{}, nullptr);
  enqueue(DecodeLaunch{}, nullptr);
  for (int i = 0; i < 3; ++i) enqueue(ProbeLaunch{}, nullptr);
  for (int i = 0; i < 4; ++i) enqueue(TallyLaunch{}, nullptr);
  for (int i = 0; i < 5; ++i) enqueue(SumLaunch{}, nullptr);
  runPending();
  EXPECT_EQ(nReduced, 1);
  EXPECT_EQ(nDecoded, 2);
  EXPECT_EQ(nProbed, 3);
  EXPECT_EQ(nTallied, 4);
  EXPECT_EQ(nSummed, 5);
  EXPECT_TRUE(encodedSlots.empty());
}

TEST_F(LaunchQueueTest, SeveralAreOneHostFunction) {
  for (uint32_t round = 0; round < 3; ++round) {
    std::vector<EncodeLaunch> launches;
    for (uint32_t slot = 0; slot < 5 - round; ++slot) launches.push_back(encodeOf(slot));
    EXPECT_EQ(queue_.enqueue(std::span<const EncodeLaunch>(launches), nullptr), 0);
    launches.clear();
    ASSERT_EQ(pending.size(), 1u);
    runPending();
  }
  EXPECT_EQ(encodedSlots, (std::vector<uint32_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2}));
}

TEST_F(LaunchQueueTest, ManyInFlightKeepTheirOrderAndContent) {
  constexpr uint32_t kLaunches = 1000;
  for (uint32_t slot = 0; slot < kLaunches; ++slot) enqueue(encodeOf(slot), nullptr);
  runPending();
  ASSERT_EQ(encodedSlots.size(), kLaunches);
  EXPECT_TRUE(std::is_sorted(encodedSlots.begin(), encodedSlots.end()));
}

TEST_F(LaunchQueueTest, RecordsAreUsedAgain) {
  std::set<void*> records;
  for (uint32_t slot = 0; slot < 10000; ++slot) {
    enqueue(encodeOf(slot), nullptr);
    records.insert(pending.front().argument);
    runPending();
  }
  EXPECT_LE(records.size(), 64u);
}

TEST_F(LaunchQueueTest, AFailedLaunchIsReportedAndLeavesNothingBehind) {
  launchError = 719;
  for (uint32_t slot = 0; slot < 1000; ++slot) EXPECT_EQ(enqueue(encodeOf(slot), nullptr), 719);
  launchError = 0;
  std::set<void*> records;
  for (uint32_t slot = 0; slot < 64; ++slot) enqueue(encodeOf(slot), nullptr);
  for (const HostFunction& each : pending) records.insert(each.argument);
  EXPECT_EQ(records.size(), 64u);
  runPending();
  EXPECT_EQ(encodedSlots.size(), 64u);
}

TEST_F(LaunchQueueTest, WhatCannotBeLoadedIsNotEnqueued) {
  loadError = kNoMachineCode;
  EXPECT_EQ(enqueue(encodeOf(1), nullptr), kNoMachineCode);
  EXPECT_TRUE(pending.empty());
}

TEST_F(LaunchQueueTest, AGraphRunsItsLaunchAgainAndAgain) {
  int stream;
  capturingStream = &stream;
  EXPECT_EQ(enqueue(encodeOf(3), &stream), 0);
  EXPECT_EQ(enqueue(encodeOf(4), nullptr), 0) << "another stream captures nothing";
  ASSERT_EQ(userObjects.size(), 1u);
  ASSERT_EQ(pending.size(), 2u);
  const HostFunction node = pending.front();
  runPending();
  for (int replay = 0; replay < 100; ++replay) {
    node.function(node.argument);
    enqueue(encodeOf(5), nullptr);  // takes a record, which must not be the graph's
    runPending();
  }
  ASSERT_EQ(encodedSlots.size(), 202u);
  EXPECT_EQ(std::count(encodedSlots.begin(), encodedSlots.end(), 3), 101);
}

TEST_F(LaunchQueueTest, AGraphRunsSeveralAgainAndAgain) {
  int stream;
  capturingStream = &stream;
  const EncodeLaunch launches[] = {encodeOf(3), encodeOf(4)};
  EXPECT_EQ(queue_.enqueue(std::span<const EncodeLaunch>(launches), &stream), 0);
  ASSERT_EQ(pending.size(), 1u);
  for (int replay = 0; replay < 2; ++replay) pending[0].function(pending[0].argument);
  EXPECT_EQ(encodedSlots, (std::vector<uint32_t>{3, 4, 3, 4}));
}

TEST_F(LaunchQueueTest, FailedCapturesAreReportedAndLeaveNothingBehind) {
  int stream;
  capturingStream = &stream;
  createError = 2;
  EXPECT_EQ(enqueue(encodeOf(1), &stream), 2);
  createError = 0;
  retainError = 901;
  EXPECT_EQ(enqueue(encodeOf(1), &stream), 901);
  ASSERT_EQ(userObjects.size(), 1u);
  EXPECT_EQ(userObjects[0].references, 0u);
  EXPECT_TRUE(pending.empty());
  retainError = 0;
  launchError = 719;
  EXPECT_EQ(enqueue(encodeOf(1), &stream), 719);
  EXPECT_TRUE(encodedSlots.empty());
}

}  // namespace
}  // namespace cinch::host
