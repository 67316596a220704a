#include "interpose/execute/submit.h"

#include <gtest/gtest.h>

#include <future>

#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeReal;
using test::Work;
using test::operator+;
using Calls = std::vector<std::string>;

constexpr size_t kSubmittedCount = 40000;
constexpr CallKind kKinds[] = {CallKind::allReduce, CallKind::reduceScatter, CallKind::allGather};

const Calls kSubmittedExchange = {"Send 1", "Recv 1", "Send 0", "Recv 0"};
const Calls kSubmittedGather = {"GroupStart", "Send 1", "Recv 1", "Send 0", "Recv 0", "GroupEnd"};

// What both ranks do for one compressed call in a group.
Calls compressedCall(CallKind kind) {
  const bool exchanges = kind != CallKind::allGather, gathers = kind != CallKind::reduceScatter;
  const Calls none;
  return Calls{"GroupStart"} + (exchanges ? kSubmittedExchange : none) +
         Calls{"encode", "encode", "GroupEnd"} + (exchanges ? Calls{"reduce", "reduce"} : none) +
         (gathers ? kSubmittedGather + Calls{"decode", "decode"} : none);
}

Calls passedCall(CallKind kind) {
  const std::string name = std::string(functionName(kind)).substr(4);
  return {"GroupStart", name, name, "GroupEnd"};
}

class SubmitTest : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    ranks_ = test::makeRanks(2);
  }
  void TearDown() override { EXPECT_EQ(fakeReal().depth, 0); }
  CommState& comm(size_t rank = 0) { return *ranks_[rank]->comm; }

  test::TestRanks ranks_;
};

TEST_F(SubmitTest, PassesAllocatesConnectsThenCompresses) {
  for (const CallKind kind : kKinds) {
    ranks_ = test::makeRanks(2);
    const Work work(ranks_, kind, kSubmittedCount);
    const auto next = [&] {
      forget();
      EXPECT_EQ(test::runInGroup({&work}), ncclSuccess);
      return happened();
    };
    EXPECT_EQ(next(), passedCall(kind)) << "warm-up";
    EXPECT_EQ(next(), passedCall(kind)) << "nothing of Cinch's is sent before all have agreed";
    EXPECT_EQ(work.slot(0).phase, SlotPhase::allocated);
    Calls connecting = passedCall(kind) + Calls{"GroupStart"};
    if (kind != CallKind::allGather) connecting = connecting + kSubmittedExchange;
    connecting.push_back("GroupEnd");
    if (kind != CallKind::reduceScatter) connecting = connecting + kSubmittedGather;
    EXPECT_EQ(next(), connecting);
    EXPECT_EQ(work.slot(0).phase, SlotPhase::connected);
    for (int call = 1; call <= 3; ++call) {
      EXPECT_EQ(next(), compressedCall(kind));
      EXPECT_EQ(work.slot(1).stats->compressed.load(), static_cast<uint64_t>(call));
      EXPECT_EQ(work.slot(1).state()->ordinal, static_cast<uint32_t>(call) + 1);
    }
    EXPECT_TRUE(fakeReal().isIdle());
    for (size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(comm(rank).health(), ncclSuccess);
      EXPECT_EQ(test::passedCalls(comm(rank), Reason::warmup), 1u);
      EXPECT_EQ(test::passedCalls(comm(rank), Reason::preparing), 2u);
    }
  }
}

TEST_F(SubmitTest, WhatIsConnectedForOneSlotServesTheOthers) {
  const Work first(ranks_, CallKind::allReduce, kSubmittedCount);
  getReady(first);
  const Work larger(ranks_, CallKind::allReduce, 2 * kSubmittedCount);
  for (int call = 0; call < 3; ++call) {
    forget();
    ASSERT_EQ(test::runInGroup({&larger}), ncclSuccess);
    EXPECT_EQ(happened(), passedCall(CallKind::allReduce)) << "NCCL has nothing to connect";
  }
  EXPECT_EQ(larger.slot(0).phase, SlotPhase::connected);
  forget();
  ASSERT_EQ(test::runInGroup({&larger}), ncclSuccess);
  EXPECT_EQ(happened(), compressedCall(CallKind::allReduce));
}

TEST_F(SubmitTest, ResultsAreCloseAndTheSameOnAllRanks) {
  for (const CallKind kind : kKinds)
    for (const ncclRedOp_t op : {ncclSum, ncclAvg})
      for (const size_t count : {kSubmittedCount, kSubmittedCount + 1, size_t{16389}}) {
        if (kind == CallKind::allGather && op == ncclAvg) continue;
        const Work work(ranks_, kind, count, op);
        getReady(work);
        ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
        ASSERT_EQ(happened(), compressedCall(kind));
        const float factor = op == ncclAvg ? 0.5f : 1.0f;
        for (int rank = 0; rank < 2; ++rank)
          EXPECT_LT(work.errorOf(rank, factor), kind == CallKind::allReduce ? 1e-2 : 1e-4);
        if (kind != CallKind::reduceScatter) {
          EXPECT_EQ(work.received(0), work.received(1));
        }
      }
}

TEST_F(SubmitTest, ScaledSumsMultiplyEachRanksInputByItsOwnScalar) {
  const float scalars[2] = {3, 3};
  const auto op = static_cast<ncclRedOp_t>(ncclNumOps);
  for (size_t rank = 0; rank < 2; ++rank)
    comm(rank).ops.add(op, &scalars[rank], ncclFloat32, ncclScalarHostImmediate);
  const Work onHost(ranks_, CallKind::reduceScatter, kSubmittedCount, op);
  getReady(onHost);
  test::groupStart();
  ASSERT_EQ(onHost.submit(), ncclSuccess);
  for (size_t rank = 0; rank < 2; ++rank) comm(rank).ops.remove(op);  // before the group ends
  ASSERT_EQ(test::groupEnd(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) EXPECT_LT(onHost.errorOf(rank, 3), 1e-4);
}

TEST_F(SubmitTest, AScalarOnTheDeviceIsReadWhenTheCallRuns) {
  float scalar = 1;
  const auto op = static_cast<ncclRedOp_t>(ncclNumOps + 9);
  for (size_t rank = 0; rank < 2; ++rank)
    comm(rank).ops.add(op, &scalar, ncclFloat32, ncclScalarDevice);
  const Work work(ranks_, CallKind::allReduce, kSubmittedCount, op);
  getReady(work);
  scalar = -2;
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  EXPECT_LT(work.errorOf(0, -2), 1e-2);
}

TEST_F(SubmitTest, ACallOutsideOfGroupsIsAGroupOfItsOwn) {
  const Work work(ranks_, CallKind::reduceScatter, kSubmittedCount);
  getReady(work);
  ASSERT_EQ(work.part(0).submit(), ncclSuccess);
  EXPECT_EQ(happened(), (Calls{"GroupStart", "Send 1", "Recv 1", "encode", "GroupEnd", "reduce"}));
}

TEST_F(SubmitTest, ANoOnMemoryAndAllPassForEver) {
  const Work work(ranks_, CallKind::allReduce, kSubmittedCount);
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  fakeDevice().calls.clear();
  fakeDevice().failAt = 4;  // after two questions and two events: rank 0's first buffer
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  EXPECT_EQ(fakeDevice().calls[4], "allocate");
  fakeDevice().failAt = -1;
  EXPECT_EQ(work.slot(0).phase, SlotPhase::allocated) << "until all know";
  for (int call = 0; call < 4; ++call) {
    forget();
    ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
    EXPECT_EQ(happened(), passedCall(CallKind::allReduce));
  }
  EXPECT_EQ(work.slot(1).phase, SlotPhase::refused);
  EXPECT_EQ(comm(1).health(), ncclSuccess);
  EXPECT_GT(test::passedCalls(comm(1), Reason::voted), 0u);
}

TEST_F(SubmitTest, WhereAPeerHasLeftCallsGoOnPassing) {
  const Work work(ranks_, CallKind::allReduce, kSubmittedCount);
  for (int call = 0; call < 2; ++call) ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  comm(1).agreement().close();  // it has voted for its memory, and will not for its connections
  for (int call = 0; call < 2; ++call) {
    test::groupStart();
    ASSERT_EQ(work.part(0).submit(), ncclSuccess);
    ASSERT_EQ(work.part(1).forward(), ncclSuccess);
    ASSERT_EQ(test::groupEnd(), ncclSuccess);
  }
  EXPECT_EQ(test::passedCalls(comm(0), Reason::preparing), 3u) << "behind one that warms up";
  EXPECT_EQ(comm(0).health(), ncclSuccess);
}

TEST_F(SubmitTest, WhoHasLeftVotesNoMoreAndKnowsNoOutcome) {
  const Work before(ranks_, CallKind::allReduce, kSubmittedCount);
  const Work after(ranks_, CallKind::allReduce, kSubmittedCount + 1);
  ASSERT_EQ(test::runInGroup({&after}), ncclSuccess);
  // Rank 0 votes a second time; what rank 1 will say is not known when both leave.
  test::groupStart();
  ASSERT_EQ(after.part(0).submit(), ncclSuccess);
  ASSERT_EQ(after.part(1).forward(), ncclSuccess);
  ASSERT_EQ(test::groupEnd(), ncclSuccess);
  ASSERT_EQ(test::runInGroup({&before}), ncclSuccess);
  for (size_t rank = 0; rank < 2; ++rank) comm(rank).agreement().close();
  ASSERT_EQ(test::runInGroup({&before}), ncclSuccess);
  EXPECT_EQ(before.slot(0).phase, SlotPhase::allocated);
  EXPECT_EQ(comm(0).health(), ncclSuccess);
  EXPECT_NE(test::runInGroup({&after}), ncclSuccess) << "the peers may have heard a yes";
  EXPECT_NE(comm(0).health(), ncclSuccess);
}

TEST_F(SubmitTest, AnAbortEndsTheWaitForVotes) {
  const Work work(ranks_, CallKind::allReduce, kSubmittedCount);
  test::runInGroup({&work});
  test::groupStart();
  ASSERT_EQ(work.part(0).submit(), ncclSuccess);
  ASSERT_EQ(work.part(1).forward(), ncclSuccess);
  ASSERT_EQ(test::groupEnd(), ncclSuccess);  // rank 1 casts no vote
  const auto state = ranks_[0]->comm;
  auto aborting = std::async([state] { state->abandon(); });
  EXPECT_NE(work.part(0).submit(), ncclSuccess);
  aborting.get();
}

TEST_F(SubmitTest, NcclSaysWhatIsWrongWithACallThatLacksABuffer) {
  const Work work(ranks_, CallKind::allReduce, kSubmittedCount);
  getReady(work);
  test::Part broken = work.part(0);
  broken.call.recv = nullptr;
  fakeReal().failAt = 0;
  fakeReal().failure = ncclInvalidArgument;
  EXPECT_EQ(broken.submit(), ncclInvalidArgument);
  EXPECT_EQ(happened(), Calls{"AllReduce"});
  EXPECT_EQ(test::passedCalls(comm(), Reason::incomplete), 1u);
  EXPECT_EQ(comm().health(), ncclSuccess);
  fakeReal().failAt = -1;
  EXPECT_EQ(test::runInGroup({&work}), ncclSuccess);
  EXPECT_EQ(comm().health(), ncclSuccess) << "the ranks still count alike";
}

TEST_F(SubmitTest, ARefusedCallDoesNotCount) {
  const Work work(ranks_, CallKind::allReduce, kSubmittedCount);
  for (int call = 0; call < 5; ++call) {
    forget();
    fakeReal().failAt = 0;
    fakeReal().failure = ncclInvalidUsage;
    EXPECT_EQ(work.part(0).submit(), ncclInvalidUsage);
  }
  fakeReal().failAt = -1;
  EXPECT_EQ(test::passedCalls(comm(), Reason::warmup), 5u);
  EXPECT_EQ(test::passedCalls(comm(), Reason::preparing), 0u);
}

TEST_F(SubmitTest, CapturedCallsAreCompressedWithResidualsOfTheirOwn) {
  const Work work(ranks_, CallKind::allReduce, kSubmittedCount);
  getReady(work);
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  const uint64_t counted = test::passedCalls(comm(), Reason::preparing);
  forget();
  fakeDevice().captures[nullptr] = 11;
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  fakeDevice().captures.clear();
  EXPECT_EQ(happened(), compressedCall(CallKind::allReduce));
  EXPECT_EQ(fakeDevice().count("clearNow"), 6u);
  EXPECT_EQ(fakeDevice().count("eventRecordInGraph"), 2u);
  EXPECT_EQ(fakeDevice().count("streamWaitEventInGraph"), 2u);
  EXPECT_EQ(fakeDevice().count("copy"), 0u) << "nobody could read figures back";
  EXPECT_EQ(fakeDevice().count("eventQuery"), 0u);
  EXPECT_EQ(comm().health(), ncclSuccess);
  EXPECT_EQ(test::passedCalls(comm(), Reason::preparing), counted);
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess) << "and the next call on a stream";
}

TEST_F(SubmitTest, ProfilersSeeOneRangePerCompressedCall) {
  const Work work(ranks_, CallKind::allReduce, kSubmittedCount);
  getReady(work);
  ASSERT_EQ(work.part(0).submit(), ncclSuccess);
  EXPECT_TRUE(fakeDevice().ranges.empty()) << "closed again";
}

TEST_F(SubmitTest, TheProgramFindsTheDeviceItLeft) {
  const Work work(ranks_, CallKind::allReduce, kSubmittedCount);
  fakeDevice().device = 3;  // the communicators are on 0
  getReady(work);
  fakeDevice().devicesUsed.clear();
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  EXPECT_EQ(fakeDevice().device, 3);
}

// The errors of a job: the first NCCL or device call that fails ends compression for good on this
// rank, and tells the program.
class ErrorTest : public test::JobTest {
 protected:
  // Runs one call of a job into the failure that `inject` arranges; false where a check failed.
  template <class Inject>
  static bool failsOnce(CallKind kind, Inject inject) {
    test::resetFakes();
    {
      const test::TestRanks ranks = test::makeRanks(2);
      const Work work(ranks, kind, kSubmittedCount);
      getReady(work);
      test::runInGroup({&work});
      forget();
      inject();
      const ncclResult_t result = test::runInGroup({&work});
      fakeDevice().failAt = fakeReal().failAt = -1;
      EXPECT_EQ(fakeReal().depth, 0);
      // What NCCL refuses to record is refused as a whole, before anything of ours runs.
      const bool refused = fakeDevice().calls == std::vector<std::string>{"captureId", "captureId"};
      if (result != ncclSuccess && refused) checkRefused(ranks);
      if (result != ncclSuccess && !refused) checkFailed(ranks, work, result);
    }
    EXPECT_TRUE(test::holdsNothing());
    return !testing::Test::HasFailure();
  }
  static void checkRefused(const test::TestRanks& ranks) {
    for (const auto& rank : ranks) EXPECT_EQ(rank->comm->health(), ncclSuccess);
  }
  static void checkFailed(const test::TestRanks& ranks, const Work& work, ncclResult_t result) {
    EXPECT_TRUE(result == ncclUnhandledCudaError || result == ncclSystemError) << result;
    for (const auto& rank : ranks) EXPECT_EQ(rank->comm->health(), result);
    forget();
    EXPECT_EQ(work.part(0).submit(), result) << "a rank may not fall back alone";
    EXPECT_EQ(work.part(1).submit(), result);
    EXPECT_TRUE(happened().empty());
  }
  static size_t callsOf(CallKind kind, const std::vector<std::string>& log) {
    size_t calls = 0;
    failsOnce(kind, [] {});
    test::resetFakes();
    const test::TestRanks ranks = test::makeRanks(2);
    const Work work(ranks, kind, kSubmittedCount);
    getReady(work);
    test::runInGroup({&work});
    forget();
    test::runInGroup({&work});
    calls = log.size();
    return calls;
  }
};

TEST_F(ErrorTest, WhateverDeviceCallFails) {
  for (const CallKind kind : kKinds) {
    const size_t nCalls = callsOf(kind, fakeDevice().calls);
    ASSERT_GT(nCalls, 6u);
    size_t failed = 0;
    for (size_t i = 0; i < nCalls; ++i) {
      std::string call;
      const bool fine = failsOnce(kind, [&] { fakeDevice().failAt = static_cast<int>(i); });
      ASSERT_TRUE(fine) << functionName(kind) << ", device call " << i;
      ++failed;
    }
    EXPECT_EQ(failed, nCalls);
  }
}

TEST_F(ErrorTest, WhateverNcclCallFails) {
  for (const CallKind kind : kKinds) {
    const size_t nCalls = callsOf(kind, fakeReal().calls);
    ASSERT_GT(nCalls, 4u);
    for (size_t i = 1; i < nCalls; ++i)  // 0 is the program's own GroupStart
      ASSERT_TRUE(failsOnce(kind, [&] { fakeReal().failAt = static_cast<int>(i); }))
          << functionName(kind) << ", NCCL call " << i;
  }
}

}  // namespace
}  // namespace cinch
