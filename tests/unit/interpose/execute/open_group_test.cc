#include "interpose/execute/open_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <utility>

#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeReal;
using test::fakeRealTable;
using test::timeline;
using test::Work;
using test::operator+;
using Calls = std::vector<std::string>;

constexpr size_t kGroupCount = 40000;

const Calls kExchange = {"Send 1", "Recv 1", "Send 0", "Recv 0"};
const Calls kGather = {"GroupStart", "Send 1", "Recv 1", "Send 0", "Recv 0", "GroupEnd"};

Calls repeated(const char* call, int times) {
  return Calls(static_cast<size_t>(times), call);
}

class OpenGroupTest : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    ranks_ = test::makeRanks(2);
    work_ = std::make_unique<Work>(ranks_, CallKind::allReduce, kGroupCount);
  }
  void TearDown() override {
    EXPECT_EQ(fakeReal().depth, 0);
    EXPECT_EQ(OpenGroup::of(fakeRealTable()), nullptr);
  }
  CommState& comm(size_t rank = 0) { return *ranks_[rank]->comm; }
  uint64_t compressed() { return work_->slot(0).stats->compressed.load(); }

  // The program's own Send of `rank`, which it follows by the matching Recv of the other.
  ncclResult_t sendAndReceive(size_t rank) {
    const auto send = [this, rank] {
      return fakeRealTable().Send(&sent_, 1, ncclInt32, 1 - static_cast<int>(rank),
                                  ranks_[rank]->comm->comm, nullptr);
    };
    const auto receive = [this, rank] {
      return fakeRealTable().Recv(&received_, 1, ncclInt32, static_cast<int>(rank),
                                  ranks_[1 - rank]->comm->comm, nullptr);
    };
    OpenGroup* group = OpenGroup::of(fakeRealTable());
    const auto first = group->pass({.comm = ranks_[rank]->comm->comm}, Pass(send));
    const auto second = group->pass({.comm = ranks_[1 - rank]->comm->comm}, Pass(receive));
    return first != ncclSuccess ? first : second;
  }

  int sent_ = 77, received_ = 0;
  test::TestRanks ranks_;
  std::unique_ptr<Work> work_;
};

TEST_F(OpenGroupTest, ThereIsNoneOutside) {
  EXPECT_EQ(OpenGroup::of(fakeRealTable()), nullptr);
  test::groupStart();
  EXPECT_NE(OpenGroup::of(fakeRealTable()), nullptr);
  const RealNccl other;
  EXPECT_EQ(OpenGroup::of(other), nullptr) << "another NCCL of the process has none";
  EXPECT_EQ(std::async([] { return OpenGroup::of(fakeRealTable()); }).get(), nullptr)
      << "nor has another thread";
  EXPECT_EQ(test::groupEnd(), ncclSuccess);
}

TEST_F(OpenGroupTest, TheProgramsOwnMessagesComeFirst) {
  getReady(*work_);
  test::groupStart();
  ASSERT_EQ(work_->submit(), ncclSuccess);
  ASSERT_EQ(sendAndReceive(0), ncclSuccess);
  ASSERT_EQ(test::groupEnd(), ncclSuccess);
  const Calls all = happened();
  std::vector<std::string> messages;
  for (const std::string& call : all)
    if (call.starts_with("Send") || call.starts_with("Recv")) messages.push_back(call);
  EXPECT_EQ(messages, (Calls{"Send 1", "Recv 0"} + kExchange + kExchange)) << "and the gather";
  EXPECT_EQ(received_, 77);
  EXPECT_TRUE(fakeReal().isIdle());
  EXPECT_EQ(comm(0).health(), ncclSuccess);
  EXPECT_EQ(comm(1).health(), ncclSuccess);
  EXPECT_EQ(work_->received(0), work_->received(1));
}

TEST_F(OpenGroupTest, NestedGroupsRunAtTheOutermostEnd) {
  getReady(*work_);
  test::groupStart();
  test::groupStart();
  ASSERT_EQ(work_->submit(), ncclSuccess);
  ASSERT_EQ(test::groupEnd(), ncclSuccess);
  EXPECT_EQ(happened(), (Calls{"GroupStart", "GroupStart", "GroupEnd"}));
  forget();
  ASSERT_EQ(test::groupEnd(), ncclSuccess);
  EXPECT_EQ(happened(), (kExchange + Calls{"encode", "encode", "GroupEnd", "reduce", "reduce"} +
                         kGather + Calls{"decode", "decode"}));
}

TEST_F(OpenGroupTest, AGroupThatIsClosedCanBeOpenedAgain) {
  getReady(*work_);
  for (int group = 1; group <= 3; ++group) {
    ASSERT_EQ(test::runInGroup({work_.get()}), ncclSuccess);
    ASSERT_EQ(test::runInGroup({}), ncclSuccess);
    EXPECT_EQ(compressed(), static_cast<uint64_t>(group));
  }
}

TEST_F(OpenGroupTest, SeveralCommunicatorsAndSlotsShareOneExchangeAndOneGather) {
  const test::TestRanks others = test::makeRanks(2, 1);
  const Work large(ranks_, CallKind::allReduce, 8 * kGroupCount);
  const Work shards(ranks_, CallKind::reduceScatter, kGroupCount);
  const Work elsewhere(others, CallKind::allReduce, kGroupCount);
  for (const Work* work : std::vector<const Work*>{&large, &shards, &elsewhere, work_.get()})
    getReady(*work);
  forget();
  ASSERT_EQ(test::runInGroup({work_.get(), &elsewhere, &shards}), ncclSuccess);
  EXPECT_EQ(std::count(timeline().begin(), timeline().end(), "GroupStart"), 2);
  EXPECT_EQ(fakeDevice().count("encode"), 4u) << "a rank's calls share it";
  EXPECT_EQ(fakeDevice().count("reduce"), 4u);
  EXPECT_EQ(fakeDevice().count("decode"), 4u);
  EXPECT_EQ(work_->received(0), work_->received(1));
  EXPECT_EQ(elsewhere.received(0), elsewhere.received(1));
  EXPECT_EQ(elsewhere.received(0), work_->received(0)) << "equal input, equal output";
  for (const test::TestRanks* all : {&std::as_const(ranks_), &others})
    for (const auto& rank : *all) EXPECT_EQ(rank->comm->health(), ncclSuccess);
  EXPECT_TRUE(fakeReal().isIdle());
}

TEST_F(OpenGroupTest, WhatDoesNotFitTheWorkspaceRunsInWaves) {
  getReady(*work_);
  ASSERT_EQ(test::runInGroup({work_.get(), work_.get(), work_.get()}), ncclSuccess);
  const Calls rest = Calls{"encode", "encode", "GroupEnd", "reduce", "reduce"} + kGather +
                     Calls{"decode", "decode"};
  const Calls wave = Calls{"GroupStart"} + kExchange + rest;
  EXPECT_EQ(happened(), wave + wave + wave);
  EXPECT_EQ(compressed(), 3u);
  EXPECT_EQ(work_->slot(1).state()->ordinal, 4u);
  EXPECT_EQ(comm(0).health(), ncclSuccess);
  EXPECT_EQ(comm(1).health(), ncclSuccess);
}

TEST_F(OpenGroupTest, SeveralCallsOfASlotGetItReadyOnce) {
  for (int step = 0; step < 2; ++step)
    ASSERT_EQ(test::runInGroup({work_.get(), work_.get(), work_.get()}), ncclSuccess);
  // The first group warms up and allocates, the second connects.
  EXPECT_EQ(work_->slot(0).phase, SlotPhase::connected);
  forget();
  ASSERT_EQ(test::runInGroup({work_.get(), work_.get()}), ncclSuccess);
  EXPECT_EQ(compressed(), 2u);
}

TEST_F(OpenGroupTest, ASimulatedGroupLeavesNoTrace) {
  const auto simulate = [&] {
    test::groupStart();
    EXPECT_EQ(work_->submit(), ncclSuccess);
    OpenGroup::forget(fakeRealTable());
    fakeReal().recorded.clear();
    fakeReal().depth = 0;  // as the real one does
  };
  for (int i = 0; i < 10; ++i) simulate();
  EXPECT_EQ(test::passedCalls(comm(), Reason::warmup), 10u) << "none of them counted";
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 4; ++i) simulate();
    ASSERT_EQ(test::runInGroup({work_.get()}), ncclSuccess);
  }
  EXPECT_EQ(work_->slot(0).phase, SlotPhase::connected) << "no step was taken twice, nor skipped";
  forget();
  for (int i = 0; i < 4; ++i) simulate();
  EXPECT_EQ(happened(), repeated("GroupStart", 4)) << "no messages, no work";
  ASSERT_EQ(test::runInGroup({work_.get()}), ncclSuccess);
  EXPECT_EQ(compressed(), 1u);
  EXPECT_EQ(comm().health(), ncclSuccess);
}

TEST_F(OpenGroupTest, AGroupThatNcclRefusedRunsNothingOfOurs) {
  const Work small(ranks_, CallKind::allReduce, 10);
  getReady(*work_);
  const uint32_t ordinal = work_->slot(0).state()->ordinal;
  for (int attempt = 0; attempt < 5; ++attempt) {
    forget();
    test::groupStart();
    fakeReal().failAt = 1;
    fakeReal().failure = ncclInvalidUsage;
    EXPECT_EQ(small.part(0).submit(), ncclInvalidUsage);
    ASSERT_EQ(work_->submit(), ncclSuccess);
    EXPECT_EQ(test::groupEnd(), ncclInvalidUsage);
    EXPECT_EQ(happened(), (Calls{"GroupStart", "AllReduce", "GroupEnd"}));
  }
  fakeReal().failAt = -1;
  EXPECT_EQ(comm().health(), ncclSuccess);
  EXPECT_EQ(work_->slot(0).state()->ordinal, ordinal);
  ASSERT_EQ(test::runInGroup({work_.get()}), ncclSuccess);
  EXPECT_EQ(compressed(), 1u);
}

TEST_F(OpenGroupTest, ARefusedGroupCountsBack) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    fakeReal().calls.clear();
    test::groupStart();
    fakeReal().failAt = 2;
    EXPECT_EQ(work_->part(0).submit(), ncclSuccess);
    EXPECT_NE(work_->part(1).submit(), ncclSuccess);
    EXPECT_NE(test::groupEnd(), ncclSuccess);
  }
  EXPECT_EQ(test::passedCalls(comm(), Reason::warmup), 5u);
  EXPECT_EQ(test::passedCalls(comm(), Reason::preparing), 0u);
}

// The communicators of a group keep the order of their first calls in it.
TEST_F(OpenGroupTest, WhatPassesWaitsForCommunicatorsBeforeIt) {
  const test::TestRanks others = test::makeRanks(2, 1);
  const Work small(others, CallKind::allReduce, 10);
  getReady(*work_);
  test::groupStart();
  ASSERT_EQ(work_->submit(), ncclSuccess);
  ASSERT_EQ(small.submit(), ncclSuccess);
  EXPECT_EQ(happened(), Calls{"GroupStart"}) << "kept";
  ASSERT_EQ(test::groupEnd(), ncclSuccess);
  Calls start = happened();
  start.resize(7);
  EXPECT_EQ(start, (Calls{"GroupStart"} + kExchange + Calls{"AllReduce", "AllReduce"}));
  EXPECT_EQ(small.received(0), small.expected(0));
  forget();
  test::groupStart();
  ASSERT_EQ(small.submit(), ncclSuccess);
  ASSERT_EQ(work_->submit(), ncclSuccess);
  EXPECT_EQ(happened(), (Calls{"GroupStart", "AllReduce", "AllReduce"})) << "at once";
  ASSERT_EQ(test::groupEnd(), ncclSuccess);
}

TEST_F(OpenGroupTest, AnOperationLivesAsLongAsTheCallsThatWait) {
  getReady(*work_);
  const auto op = static_cast<ncclRedOp_t>(ncclNumOps);
  int destroyed = 0;
  const auto destroy = [&destroyed] {
    ++destroyed;
    return ncclSuccess;
  };
  const auto call = [&destroyed] {
    EXPECT_EQ(destroyed, 0);
    return ncclSuccess;
  };
  test::FakeRank stranger;
  test::groupStart();
  ASSERT_EQ(work_->submit(), ncclSuccess);
  OpenGroup* group = OpenGroup::of(fakeRealTable());
  EXPECT_EQ(group->destroyOp(stranger.handle(), op, Pass(destroy)), ncclSuccess);
  EXPECT_EQ(destroyed, 1) << "nothing waits with it";
  destroyed = 0;
  ASSERT_EQ(group->pass({.comm = stranger.handle(), .op = op}, Pass(call)), ncclSuccess);
  EXPECT_EQ(group->destroyOp(stranger.handle(), op, Pass(destroy)), ncclSuccess);
  EXPECT_EQ(destroyed, 0);
  ASSERT_EQ(test::groupEnd(), ncclSuccess);
  EXPECT_EQ(destroyed, 1);
}

TEST_F(OpenGroupTest, NothingIsEnqueuedWhileNcclIsInProgress) {
  getReady(*work_);
  fakeReal().nonBlocking = true;
  fakeReal().pollsUntilDone = 5;
  ASSERT_EQ(test::runInGroup({work_.get()}), ncclInProgress)
      << "other communicators of the group may still be";
  const Calls all = timeline();
  const auto ended = std::find(all.begin(), all.end(), "GroupEnd");
  ASSERT_NE(ended, all.end());
  for (int poll = 1; poll <= 5; ++poll) EXPECT_EQ(ended[poll], "CommGetAsyncError");
  EXPECT_EQ(work_->received(0), work_->received(1));
  EXPECT_EQ(comm(0).health(), ncclSuccess);
}

TEST_F(OpenGroupTest, AnAsynchronousErrorEndsThatWait) {
  getReady(*work_);
  fakeReal().nonBlocking = true;
  fakeReal().pollsUntilDone = 1000;
  fakeReal().asyncError = ncclRemoteError;
  EXPECT_EQ(test::runInGroup({work_.get()}), ncclRemoteError);
  EXPECT_EQ(fakeDevice().count("reduce"), 0u);
  EXPECT_EQ(comm(0).health(), ncclRemoteError);
  EXPECT_EQ(comm(1).health(), ncclRemoteError);
}

TEST_F(OpenGroupTest, AnAbortEndsThatWait) {
  getReady(*work_);
  fakeReal().nonBlocking = true;
  fakeReal().pollsUntilDone = 1 << 30;
  // Whether the abort comes before the wait or in it, on both ranks, as one thread waits for both.
  auto aborting = std::async([this] {
    for (const auto& rank : ranks_) rank->comm->abandon();
  });
  EXPECT_NE(test::runInGroup({work_.get()}), ncclSuccess);
  aborting.get();
  EXPECT_EQ(fakeDevice().count("reduce"), 0u);
  fakeReal() = {};
}

TEST_F(OpenGroupTest, OnlyTheFirstHalfOfAFailedStepIsTaken) {
  getReady(*work_);
  const Work other(ranks_, CallKind::allReduce, kGroupCount + 1);
  ASSERT_EQ(test::runInGroup({&other}), ncclSuccess);
  forget();
  fakeReal().nonBlocking = true;
  fakeReal().pollsUntilDone = 3;
  ASSERT_EQ(test::runInGroup({&other}), ncclInProgress) << "what NCCL said of the program's calls";
  EXPECT_EQ(other.slot(0).phase, SlotPhase::allocated);
  EXPECT_EQ(other.slot(1).phase, SlotPhase::allocated);
}

}  // namespace
}  // namespace cinch
