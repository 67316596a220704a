#include "interpose/comm/comm_state.h"

#include <gtest/gtest.h>

#include <future>
#include <limits>
#include <thread>

#include "interpose/comm/memory_reserve.h"
#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

const Signature kGradients{CallKind::allReduce, OpClass::sum, ncclFloat32, 1 << 20};
const Signature kShards{CallKind::reduceScatter, OpClass::sum, ncclFloat32, 1 << 20};
const Signature kLoss{CallKind::allReduce, OpClass::sum, ncclFloat32, 1};
const Signature kOrder{CallKind::broadcast, OpClass::none, ncclInt32, 100};

uint8_t codecId(const Slot& slot) {
  return slot.plan.layout.codec.id;
}

class CommStateTest : public testing::Test {
 protected:
  void SetUp() override {
    test::resetFakes();
    ranks_ = test::makeRanks(2);
  }
  CommState& comm() { return *ranks_[0]->comm; }
  CommState::Decision decide(const Signature& signature) {
    return comm().decide(signature, nullptr);
  }
  // Decides on a call in the capture `id`.
  CommState::Decision decideIn(uint64_t id, const Signature& signature) {
    fakeDevice().captures[nullptr] = id;
    const auto decision = decide(signature);
    fakeDevice().captures.clear();
    return decision;
  }
  // Decides on calls like `signature` until they are candidates.
  Slot& slotOf(const Signature& signature) {
    for (;;) {
      const auto decision = decide(signature);
      if (decision.reason == Reason::none) return *decision.slot;
    }
  }

  test::TestRanks ranks_;
};

TEST_F(CommStateTest, HearsTheVerdictOnceWhenItIsFirstNeeded) {
  EXPECT_FALSE(comm().agreed());
  EXPECT_EQ(decide(kGradients).reason, Reason::warmup);
  EXPECT_TRUE(comm().agreed());
  comm().agreement().close();
  EXPECT_TRUE(comm().settle().ok()) << "nothing is asked again";
  EXPECT_TRUE(comm().agreed());
  EXPECT_EQ(decide(kGradients).reason, Reason::none);
}

TEST_F(CommStateTest, OneSignatureIsOneSlot) {
  Slot& slot = slotOf(kGradients);
  EXPECT_EQ(decide(kGradients).slot, &slot);
  Signature average = kGradients;
  average.op = OpClass::avg;
  Slot& other = slotOf(average);
  EXPECT_NE(other.identity, slot.identity);
  EXPECT_EQ(other.plan.factor, 0.5f);
  Slot& shards = slotOf(kShards);
  EXPECT_EQ(shards.rule.gain, 0.0f);
  EXPECT_EQ(shards.plan.layout.count, 2u << 20);
}

// A rank may have met slots in calls that did not take place, in any order.
TEST_F(CommStateTest, SlotsAreCalledAfterTheirSignature) {
  EXPECT_EQ(slotOf(kGradients).identity, identityOf(kGradients, codecId(slotOf(kGradients)), 0));
  EXPECT_EQ(slotOf(kShards).identity, identityOf(kShards, codecId(slotOf(kShards)), 0));
  EXPECT_NE(slotOf(kGradients).identity, slotOf(kShards).identity);
}

TEST_F(CommStateTest, ATakenBackCallDoesNotCount) {
  EXPECT_EQ(decide(kGradients).reason, Reason::warmup);
  for (int i = 0; i < 10; ++i) {
    comm().takeBack(kGradients);
    const auto decision = decide(kGradients);
    EXPECT_EQ(decision.reason, Reason::warmup);
    EXPECT_TRUE(decision.counted);
  }
  EXPECT_EQ(decide(kGradients).reason, Reason::none);
}

TEST_F(CommStateTest, NewCallsAndNewLayoutsResetResiduals) {
  Slot& slot = slotOf(kGradients);
  ASSERT_TRUE(slot.allocate(fakeDeviceTable(), nullptr).ok());
  ASSERT_TRUE(slot.takeResiduals(fakeDeviceTable()).ok());
  slot.calls = 1;
  const auto resets = [&] {
    EXPECT_TRUE(slot.residualsOfCall(fakeDeviceTable(), this, this, nullptr).ok());
    return slot.stats->residualResets.load();
  };
  EXPECT_EQ(resets(), 1u) << "the first use";
  decide(kGradients);
  EXPECT_EQ(resets(), 1u);
  decide(kLoss);
  EXPECT_EQ(resets(), 2u) << "a new signature";
  decide(kLoss);
  EXPECT_EQ(resets(), 2u);
  decide(kOrder);
  EXPECT_EQ(resets(), 3u);
  decide(kOrder);
  EXPECT_EQ(resets(), 4u) << "every integer broadcast";
}

TEST_F(CommStateTest, BeyondTheTableNewSignaturesPass) {
  Signature signature = kGradients;
  for (size_t i = 0; i < SignatureTable::kMaxSignatures; ++i, ++signature.count) decide(signature);
  EXPECT_EQ(decide(signature).reason, Reason::manyKinds);
  EXPECT_EQ(decide(kGradients).reason, Reason::none);
}

TEST_F(CommStateTest, ACaptureBeforeTheSlotIsReadyPassesForEver) {
  EXPECT_EQ(decideIn(7, kGradients).reason, Reason::capturing);
  Slot& slot = slotOf(kGradients);
  slot.phase = SlotPhase::active;
  EXPECT_EQ(decide(kGradients).reason, Reason::none) << "on streams it is compressed";
  for (const uint64_t id : {7, 8, 9}) {
    const auto decision = decideIn(id, kGradients);
    EXPECT_EQ(decision.reason, Reason::capturing)
        << "a rank that captures anew must do what the others' old graphs do";
    EXPECT_FALSE(decision.counted);
  }
}

TEST_F(CommStateTest, ACaptureOfAReadySlotIsCompressedForEver) {
  Slot& slot = slotOf(kGradients);
  slot.phase = SlotPhase::active;
  const auto first = decideIn(7, kGradients);
  EXPECT_EQ(first.reason, Reason::none);
  EXPECT_EQ(first.slot, &slot);
  EXPECT_EQ(first.captureId, 7u);
  EXPECT_FALSE(first.counted);
  EXPECT_EQ(decideIn(8, kGradients).captureId, 8u);
  EXPECT_EQ(decideIn(9, kShards).reason, Reason::capturing) << "each signature for itself";
}

TEST_F(CommStateTest, OnlyAnActiveSlotIsReadyForACapture) {
  uint64_t count = kGradients.count;
  for (const SlotPhase phase :
       {SlotPhase::idle, SlotPhase::allocated, SlotPhase::connected, SlotPhase::refused}) {
    Signature signature = kGradients;
    signature.count = ++count;
    slotOf(signature).phase = phase;
    EXPECT_EQ(decideIn(7, signature).reason, Reason::capturing) << static_cast<int>(phase);
  }
}

TEST_F(CommStateTest, CapturedCallsDoNotCount) {
  EXPECT_EQ(decide(kGradients).reason, Reason::warmup);
  comm().takeBack(kGradients);
  for (int i = 0; i < 5; ++i) decideIn(7, kGradients);
  EXPECT_EQ(decide(kGradients).reason, Reason::warmup);
  EXPECT_EQ(decide(kGradients).reason, Reason::none);
}

TEST_F(CommStateTest, AStreamThatCannotBeAskedCountsAsCapturing) {
  Slot& slot = slotOf(kGradients);
  slot.phase = SlotPhase::active;
  fakeDevice().failAt = static_cast<int>(fakeDevice().calls.size());
  const auto decision = decide(kGradients);
  EXPECT_EQ(fakeDevice().calls.back(), "captureId");
  EXPECT_EQ(decision.reason, Reason::capturing);
  EXPECT_FALSE(decision.counted);
  EXPECT_EQ(decideIn(7, kGradients).reason, Reason::none) << "and says nothing about captures";
}

TEST_F(CommStateTest, PassesAreCountedByReason) {
  ASSERT_TRUE(comm().settle().ok());
  comm().countPass(Reason::small, 12);
  comm().countPass(Reason::small, 30);
  comm().countPass(Reason::kind, 1);
  EXPECT_EQ(test::passedCalls(comm(), Reason::small), 2u);
  EXPECT_EQ(test::passedCalls(comm(), Reason::kind), 1u);
  EXPECT_EQ(test::passedCalls(comm(), Reason::warmup), 0u);
}

TEST_F(CommStateTest, TheFirstFailureStays) {
  EXPECT_EQ(comm().health(), ncclSuccess);
  EXPECT_EQ(comm().fail(errorf(Status::cudaError, "first")), ncclUnhandledCudaError);
  EXPECT_EQ(comm().fail(errorf(Status::systemError, "second")), ncclUnhandledCudaError);
  EXPECT_EQ(comm().health(), ncclUnhandledCudaError);
}

TEST_F(CommStateTest, RefusedBytesOfAPeerAreARemoteError) {
  ASSERT_TRUE(comm().settle().ok());
  EXPECT_EQ(comm().health(), ncclSuccess);
  *comm().resources.fault.as<uint32_t>() = kFaultOrdinal | kFaultSlot;
  EXPECT_EQ(comm().health(), ncclRemoteError);
  *comm().resources.fault.as<uint32_t>() = 0;
  EXPECT_EQ(comm().health(), ncclRemoteError) << "it cannot get well again";
}

TEST_F(CommStateTest, TheProgramsOwnOperationsAreScaledSums) {
  const float scalar = 3;
  const auto op = static_cast<ncclRedOp_t>(ncclNumOps + 4);
  EXPECT_EQ(comm().classOf(op, ncclFloat32), OpClass::other);
  comm().ops.add(op, &scalar, ncclFloat32, ncclScalarHostImmediate);
  EXPECT_EQ(comm().classOf(op, ncclFloat32), OpClass::preMulSum);
  EXPECT_EQ(comm().factorOf(op, ncclFloat32).value, 3.0f);
  EXPECT_EQ(comm().classOf(op, ncclFloat16), OpClass::other) << "made for another type";
  EXPECT_EQ(comm().factorOf(op, ncclFloat16).value, 1.0f);
  EXPECT_EQ(comm().classOf(ncclSum, ncclFloat32), OpClass::sum);
  EXPECT_EQ(comm().factorOf(ncclSum, ncclFloat32).value, 1.0f);
  EXPECT_EQ(comm().classOf(ncclMax, ncclFloat32), OpClass::other);
  EXPECT_EQ(comm().classOf(static_cast<ncclRedOp_t>(-1), ncclFloat32), OpClass::other);
}

TEST_F(CommStateTest, AFinishedCommunicatorFreesAllThatItHas) {
  Slot& slot = slotOf(kGradients);
  ASSERT_TRUE(slot.allocate(fakeDeviceTable(), nullptr).ok());
  ASSERT_TRUE(comm().workspace.reserve(fakeDeviceTable(), 1000).ok());
  comm().finish();
  ranks_.clear();
  EXPECT_TRUE(test::holdsNothing());
}

// Freeing waits for the device, whose work may itself wait for other ranks, or never end.
TEST_F(CommStateTest, ItsMemoryIsNotFreedWhileItMayBeInUse) {
  Slot& slot = slotOf(kGradients);
  ASSERT_TRUE(slot.allocate(fakeDeviceTable(), nullptr).ok());
  ASSERT_TRUE(comm().workspace.reserve(fakeDeviceTable(), 1000).ok());
  ASSERT_NE(slot.residualsInCapture(fakeDeviceTable(), 3).encode, nullptr);
  ranks_[1].reset();
  MemoryReserve::instance().release();
  const size_t held = fakeDevice().memory.size();
  EXPECT_EQ(held, 9u) << "three of the slot, three of its capture, two of the workspace, the fault";
  comm().abandon();
  EXPECT_TRUE(comm().isAbandoned());
  EXPECT_EQ(comm().health(), ncclRemoteError);
  fakeDevice().calls.clear();
  fakeDevice().eventsPending = true;
  ranks_.clear();
  EXPECT_FALSE(test::holdsNothing());
  EXPECT_EQ(fakeDevice().memory.size(), held);
  EXPECT_EQ(fakeDevice().count("release"), 0u);
  fakeDevice().eventsPending = false;
  EXPECT_TRUE(test::holdsNothing());
}

TEST_F(CommStateTest, AnUnsettledOneEndsToo) {
  comm().finish();
  ranks_[1]->comm->abandon();
  ranks_.clear();
  EXPECT_TRUE(test::holdsNothing());
}

TEST_F(CommStateTest, TheDeviceThatIsCurrentAtTheEndIsPutBack) {
  ASSERT_TRUE(comm().settle().ok());
  fakeDevice().device = 5;
  ranks_.clear();
  EXPECT_EQ(fakeDevice().device, 5);
}

class Unagreed : public testing::Test {
 protected:
  void SetUp() override { test::resetFakes(); }
};

TEST_F(Unagreed, PassesEverythingAndTouchesNothing) {
  {
    const test::TestRank rank = test::passingRank();
    for (int i = 0; i < 10; ++i) {
      const auto decision = rank.comm->decide(kGradients, nullptr);
      EXPECT_EQ(decision.reason, Reason::notAgreed);
      EXPECT_FALSE(decision.counted);
    }
    rank.comm->finish();
    rank.comm->abandon();
  }
  EXPECT_TRUE(fakeDevice().calls.empty());
}

TEST_F(Unagreed, CallsBeforeTheVerdictCountAsOthers) {
  const test::TestRank rank = test::passingRank();
  rank.comm->countPass(Reason::kind, 8);  // a Send, say, before the first collective
  ASSERT_TRUE(rank.comm->settle().ok());
  EXPECT_EQ(test::passedCalls(*rank.comm, Reason::kind), 0u);
}

TEST_F(Unagreed, ARankThatCannotTakePartMakesAllPass) {
  auto channels = test::greetAll(2, "it has no device");
  {
    const test::TestRank rank({0, 2}, Joining::over(std::move(channels[0]), test::fakeResources()));
    fakeDevice().calls.clear();
    EXPECT_EQ(rank.comm->decide(kGradients, nullptr).reason, Reason::notAgreed);
    EXPECT_TRUE(fakeDevice().calls.empty()) << "freeing memory would wait for the device";
    EXPECT_FALSE(rank.comm->agreed());
    EXPECT_EQ(rank.comm->health(), ncclSuccess);
  }
  EXPECT_TRUE(test::holdsNothing()) << "what nobody will use is given back";
}

TEST_F(Unagreed, AnAbortEndsTheWaitForTheVerdict) {
  const test::TestRank rank({0, 2}, Joining::over(test::greetAlone(), test::fakeResources()));
  auto settling = std::async([&] { return rank.comm->settle(); });
  rank.comm->abandon();
  EXPECT_TRUE(settling.get().ok());
  EXPECT_FALSE(rank.comm->agreed());
  EXPECT_EQ(rank.comm->health(), ncclRemoteError);
  EXPECT_EQ(rank.comm->decide(kGradients, nullptr).reason, Reason::notAgreed);
}

TEST_F(Unagreed, BirthsAndAbortsMayComeFromAnyThread) {
  const test::TestRank rank = test::passingRank();
  CommState& comm = *rank.comm;
  ncclComm_t handle = nullptr;
  std::atomic<size_t> taken{0};
  auto taker = std::async([&] {
    for (int i = 0; i < 200; ++i) comm.births.take([&](const Birth&) { ++taken; });
  });
  for (int i = 0; i < 200; ++i) comm.births.await(comm.births.number(&handle, 0, 0));
  auto failing = std::async([&] { return comm.fail(errorf(Status::systemError, "one of them")); });
  comm.abandon();
  EXPECT_NE(failing.get(), ncclSuccess);
  taker.get();
  comm.births.take([&](const Birth&) { ++taken; });
  EXPECT_EQ(taken, 200u);
  EXPECT_NE(comm.health(), ncclSuccess);
}

}  // namespace
}  // namespace cinch
