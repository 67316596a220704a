// Calls of slots that are examined: CINCH_GUARD_EVERY=4, with a codec of 4 bits.
#include "interpose/execute/checkup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeReal;
using test::Work;

constexpr size_t kCount = 40000;

class CheckupCalls : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    ranks_ = test::makeRanks(2);
  }
  void TearDown() override {
    test::awaitBackground(ranks_);
    EXPECT_TRUE(fakeReal().isIdle());
  }

  static size_t countOf(const char* call) {
    const auto& calls = test::timeline();
    return static_cast<size_t>(std::count(calls.begin(), calls.end(), call));
  }
  // Runs the work once, and says how many exact reductions that took.
  static size_t exactReductionsOf(const Work& work) {
    const size_t before = countOf("AllReduce");
    EXPECT_EQ(test::runInGroup({&work}), ncclSuccess);
    return (countOf("AllReduce") - before) / 2;
  }

  test::TestRanks ranks_;
};

TEST_F(CheckupCalls, OneOfFourIsAlsoReducedExactlyAndTheUserGetsTheCompressedOne) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  std::vector<int> examined;
  for (int call = 0; call < 60; ++call) {
    if (exactReductionsOf(work) == 1) examined.push_back(call);
    for (int rank : {0, 1}) EXPECT_GT(work.errorOf(rank), 1e-6) << "an exact result, call " << call;
    for (int rank : {0, 1}) EXPECT_LT(work.errorOf(rank), 0.03);
  }
  ASSERT_GE(examined.size(), 8u);
  EXPECT_GE(examined[0], 4);
  for (size_t i = 1; i < examined.size(); ++i) EXPECT_EQ(examined[i] - examined[i - 1], 4);
  const GuardFigures& guard = work.slot(0).stats->guard;
  EXPECT_GE(guard.checks.load(), examined.size() - 1);
  EXPECT_EQ(guard.breaches.load(), 0u);
  EXPECT_NEAR(guard.nmse.load(), work.errorOf(0), 0.5 * work.errorOf(0));
  EXPECT_GT(guard.cosine.load(), 0.99);
  // |out|^2 = |exact|^2 + 2 exact . error + |error|^2.
  EXPECT_NEAR(guard.powerRatio.load(), 1, 2 * std::sqrt(guard.nmse.load()) + guard.nmse.load());
  EXPECT_NE(guard.powerRatio.load(), 1);
  EXPECT_EQ(work.slot(1).stats->guard.checks.load(), 0u) << "rank 0 alone judges";
}

TEST_F(CheckupCalls, InOneGroupTakeTurnsAndWaitForWordsOfCallsInTheSameGroup) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  for (int group = 0; group < 4; ++group)
    ASSERT_EQ(test::runInGroup({&work, &work, &work, &work, &work, &work, &work, &work}),
              ncclSuccess);
  EXPECT_EQ(ranks_[0]->comm->health(), ncclSuccess);
  EXPECT_GE(countOf("AllReduce") / 2, 4u);
  EXPECT_LT(work.errorOf(1), 0.03);
}

TEST_F(CheckupCalls, OfOtherSlotsRunOnBesideThem) {
  const Work first(ranks_, CallKind::allReduce, kCount), second(ranks_, CallKind::allReduce, 70000);
  getReady(first);
  getReady(second);
  for (int group = 0; group < 40; ++group)
    ASSERT_EQ(test::runInGroup({&first, &second}), ncclSuccess);
  for (const Work* work : {&first, &second}) {
    EXPECT_GE(work->slot(0).stats->guard.checks.load(), 3u);
    EXPECT_EQ(work->slot(0).stats->guard.breaches.load(), 0u);
    EXPECT_LT(work->errorOf(0), 0.03);
  }
}

TEST_F(CheckupCalls, ThatAreSimulatedAreNotCounted) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  for (int call = 0; call < 7; ++call) ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  const uint64_t before = work.slot(0).checkup->nextCall;
  test::groupStart();
  ASSERT_EQ(work.submit(), ncclSuccess);
  OpenGroup::forget(test::fakeRealTable());
  fakeReal().depth = 0;
  EXPECT_EQ(work.slot(0).checkup->nextCall, before);
}

// NCCL reduces with it once more, at the end of the group.
TEST_F(CheckupCalls, KeepTheirOperationUntilTheGroupHasEnded) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  const ncclRedOp_t op = work.part(0).call.op;
  const ncclComm_t handle = ranks_[0]->comm->comm;
  size_t nExactWhenDestroyed = 0, nDestroyed = 0;
  const auto destroy = [&] {
    ++nDestroyed;
    nExactWhenDestroyed = countOf("AllReduce");
    return ncclSuccess;
  };
  for (int call = 0; call < 12; ++call) {
    nDestroyed = 0;
    test::groupStart();
    ASSERT_EQ(work.submit(), ncclSuccess);
    ASSERT_EQ(OpenGroup::of(test::fakeRealTable())->destroyOp(handle, op, Pass(destroy)),
              ncclSuccess);
    EXPECT_EQ(nDestroyed, 0u);
    ASSERT_EQ(test::groupEnd(), ncclSuccess);
    EXPECT_EQ(nDestroyed, 1u);
    EXPECT_EQ(nExactWhenDestroyed, countOf("AllReduce"));
  }
  EXPECT_GT(nExactWhenDestroyed, 0u);
}

TEST_F(CheckupCalls, OfARefusedGroupAreCountedOnce) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  const Checkup& checkup = *work.slot(0).checkup;
  for (int call = 0; call < 24; ++call) {
    const uint64_t before = checkup.nextCall;
    fakeReal().calls.clear();
    fakeReal().failAt = 1;  // the first that NCCL is asked to record
    EXPECT_NE(test::runInGroup({&work}), ncclSuccess);
    EXPECT_EQ(checkup.nextCall, before);
    fakeReal().failAt = -1;
    ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
    EXPECT_EQ(checkup.nextCall, before + 1);
  }
  EXPECT_GE(work.slot(0).stats->guard.checks.load(), 3u);
  EXPECT_LT(work.errorOf(1), 0.03);
}

TEST_F(CheckupCalls, EveryCallWithFeedbackIsProbedBeforeItIsEncoded) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  for (int call = 0; call < 3; ++call) ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  size_t nProbed = 0, nEncoded = 0;
  for (const std::string& call : test::timeline()) {
    nProbed += call == "probe";
    nEncoded += call == "encode";
    // Both ranks' calls are probed, then both are encoded.
    EXPECT_EQ(nProbed, call == "encode" ? (nEncoded + 1) / 2 * 2 : nProbed) << nEncoded;
  }
  EXPECT_EQ(nProbed, 6u);
  EXPECT_EQ(nEncoded, 6u);
}

TEST_F(CheckupCalls, WhatRankZeroSaysIsDoneByAll) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  while (exactReductionsOf(work) == 0) {
  }
  // Instead of what rank 0 concluded of this call, a plan of ours, heard two calls later.
  for (int rank : {0, 1}) {
    Slot& slot = work.slot(rank);
    const PrecisionPlan plan{
        77, slot.identity, 0, {{10, codec::formatOf("q8")}, {30, codec::formatOf("h3")}}};
    ASSERT_TRUE(slot.changePlan(test::fakeDeviceTable(), plan).ok());
    EXPECT_EQ(slot.planInForce().planId, 77u);
  }
  for (int call = 0; call < 20; ++call) {
    ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
    for (int rank : {0, 1}) {
      EXPECT_LT(work.errorOf(rank), 0.08) << call;
      EXPECT_EQ(work.received(0), work.received(1));
    }
  }
  EXPECT_EQ(ranks_[0]->comm->health(), ncclSuccess);
  EXPECT_EQ(ranks_[1]->comm->health(), ncclSuccess);
}

TEST_F(CheckupCalls, WithoutRankZeroEndInAnError) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  // What rank 0 will send may reach others; here the channel is gone on rank 1.
  ranks_[1]->comm->agreement().close();
  constexpr int kMoreThanOneExamination = 20;
  ncclResult_t result = ncclSuccess;
  for (int call = 0; call < kMoreThanOneExamination && result == ncclSuccess; ++call)
    result = test::runInGroup({&work});
  EXPECT_NE(result, ncclSuccess);
  EXPECT_NE(ranks_[1]->comm->health(), ncclSuccess);
  fakeReal().waiting.clear();
}

}  // namespace
}  // namespace cinch
