#include "interpose/comm/slot.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/codec/registry.h"

#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

constexpr uint64_t kSlotCount = 5000;
constexpr CodingRule kFeedback{.gain = 0.1f};

CollectivePlan planOf(CallKind kind, uint64_t count = kSlotCount) {
  return planCollective({kind, OpClass::sum, ncclFloat32, count}, ElementType::fp32,
                        codec::formatOf("q4"), 0, 2);
}

float* floats(void* residual) {
  return static_cast<float*>(residual);
}

bool allZero(const void* floats, size_t count) {
  const auto* values = static_cast<const float*>(floats);
  return std::all_of(values, values + count, [](float value) { return value == 0; });
}

bool getsReady(Slot& slot) {
  return slot.allocate(fakeDeviceTable(), nullptr).ok() &&
         slot.takeResiduals(fakeDeviceTable()).ok();
}

class SlotTest : public testing::Test {
 protected:
  void SetUp() override {
    test::resetFakes();
    slot_.stats = &comm_.addSlot("slot", "q4", 0.1f);
  }

  void TearDown() override { slot_.residuals.giveBack(nullptr); }

  Result<Residuals> refresh(const void* send, const void* recv) {
    return slot_.residualsOfCall(fakeDeviceTable(), send, recv, nullptr);
  }
  // Makes the residuals non-zero and says whether refresh() cleared both.
  bool clears(const void* send, const void* recv) {
    const Residuals residuals = slot_.residuals.pointers();
    floats(residuals.encode)[kSlotCount - 1] = 1;
    floats(residuals.reduce)[0] = 1;
    EXPECT_TRUE(refresh(send, recv).ok());
    const bool first = floats(residuals.encode)[kSlotCount - 1] == 0;
    EXPECT_EQ(first, floats(residuals.reduce)[0] == 0);
    return first;
  }
  Residuals captured(uint64_t id) { return slot_.residualsInCapture(fakeDeviceTable(), id); }

  CommStats comm_{CommLabel{"communicator", 0, 2, "", {}}};
  Slot slot_{0, "slot", planOf(CallKind::allReduce), kFeedback, nullptr};
};

TEST_F(SlotTest, StartsWithZeroResidualsAndOrdinalOne) {
  ASSERT_TRUE(getsReady(slot_));
  EXPECT_EQ(slot_.state()->ordinal, 1u);
  EXPECT_EQ(slot_.state()->poisonOrdinal, 0u);
  ASSERT_TRUE(refresh(&comm_, &comm_).ok());
  EXPECT_TRUE(allZero(slot_.residuals.pointers().encode, kSlotCount));
  EXPECT_TRUE(allZero(slot_.residuals.pointers().reduce, slot_.plan.layout.shardElems(0)));
}

TEST_F(SlotTest, OnlyTheSameBuffersKeepTheResidual) {
  ASSERT_TRUE(getsReady(slot_));
  char a, b;
  EXPECT_TRUE(clears(&a, &b));
  slot_.calls = 1;
  EXPECT_FALSE(clears(&a, &b));
  EXPECT_TRUE(clears(&a, &a));
  EXPECT_TRUE(clears(&b, &a));
  EXPECT_FALSE(clears(&b, &a));
  slot_.residuals.drop();
  EXPECT_TRUE(clears(&b, &a));
  EXPECT_FALSE(clears(&b, &a));
  EXPECT_EQ(slot_.stats->residualResets.load(), 3u) << "the first clearing is no reset";
  slot_.residuals.enterEpoch(1);
  EXPECT_TRUE(clears(&b, &a));
  slot_.residuals.enterEpoch(1);
  EXPECT_FALSE(clears(&b, &a)) << "still the same epoch";
}

TEST_F(SlotTest, WithoutFeedbackThereIsNoResidual) {
  Slot slot(0, "slot", slot_.plan, CodingRule{}, nullptr);
  ASSERT_TRUE(getsReady(slot));
  EXPECT_EQ(slot.residuals.pointers().encode, nullptr);
  EXPECT_EQ(slot.residuals.pointers().reduce, nullptr);
  ASSERT_TRUE(slot.residualsOfCall(fakeDeviceTable(), this, this, nullptr).ok());
  EXPECT_EQ(fakeDevice().count("clear"), 0u);
  EXPECT_EQ(slot.residualsInCapture(fakeDeviceTable(), 1).encode, nullptr);
  EXPECT_EQ(fakeDevice().count("allocate"), 2u) << "the counters and their mirror";
}

TEST_F(SlotTest, ReduceScatterAndAllGatherKeepNone) {
  for (const CallKind kind : {CallKind::reduceScatter, CallKind::allGather}) {
    Slot slot(0, "slot", planOf(kind), kFeedback, nullptr);
    ASSERT_TRUE(getsReady(slot));
    EXPECT_EQ(slot.residuals.pointers().encode, nullptr);
    EXPECT_EQ(slot.residuals.pointers().reduce, nullptr);
  }
}

TEST_F(SlotTest, EachCallOfACaptureHasZeroResidualsOfItsOwn) {
  ASSERT_TRUE(getsReady(slot_));
  fakeDevice().captures[nullptr] = 5;
  const Residuals first = captured(5), second = captured(5);
  for (const Residuals& residuals : {first, second}) {
    ASSERT_NE(residuals.encode, nullptr);
    ASSERT_NE(residuals.reduce, nullptr);
    EXPECT_NE(residuals.encode, slot_.residuals.pointers().encode)
        << "not those of calls on streams";
    EXPECT_TRUE(allZero(residuals.encode, kSlotCount));
    EXPECT_TRUE(allZero(residuals.reduce, slot_.plan.layout.shardElems(0)));
  }
  EXPECT_NE(first.encode, second.encode);
  EXPECT_NE(first.reduce, second.reduce);
  EXPECT_EQ(fakeDevice().count("clearNow"), 6u + 1u) << "and what the slot's probe knows";
  EXPECT_EQ(fakeDevice().count("clear"), 0u) << "a graph would clear them at every launch";
  EXPECT_EQ(fakeDevice().captureMode, 0) << "and is put back";
}

// Once, by rank 0.
TEST_F(SlotTest, WarnsOfAResidualThatHasOutgrownTheGradient) {
  ASSERT_TRUE(getsReady(slot_));
  const auto said = [&](uint32_t nOverflows) {
    slot_.residuals.pointers().probe->nOverflows = nOverflows;
    EXPECT_TRUE(slot_.mirrorState(fakeDeviceTable(), nullptr).ok());
    testing::internal::CaptureStdout();
    slot_.readMirror();
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(said(0), "");
  EXPECT_NE(said(2).find("slot by q4: a residual of more than 5 times the gradient was dropped"),
            std::string::npos);
  EXPECT_EQ(said(3), "");
  EXPECT_EQ(slot_.stats->overflows.load(), 3u);
}

TEST_F(SlotTest, LaterCapturesReuseThemInOrder) {
  ASSERT_TRUE(getsReady(slot_));
  const Residuals first = captured(5), second = captured(5);
  floats(first.encode)[3] = 1;
  for (const uint64_t id : {6, 7}) {
    EXPECT_EQ(captured(id).encode, first.encode);
    EXPECT_EQ(captured(id).encode, second.encode);
  }
  EXPECT_EQ(floats(first.encode)[3], 1) << "what an earlier graph left behind still counts";
  EXPECT_EQ(captured(8).encode, first.encode);
  EXPECT_EQ(captured(8).encode, second.encode);
  const Residuals third = captured(8);
  EXPECT_NE(third.encode, first.encode);
  EXPECT_NE(third.encode, second.encode);
}

TEST_F(SlotTest, CallsOfACaptureShareNoneWhateverComesBetween) {
  ASSERT_TRUE(getsReady(slot_));
  fakeDevice().captures[nullptr] = 5;
  const Residuals first = captured(5);
  captured(6);
  EXPECT_NE(captured(5).encode, first.encode);
}

// Memory is a rank's own affair: without, its captured calls go without feedback.
TEST_F(SlotTest, WhateverFailsACapturedCallGoesWithoutFeedback) {
  ASSERT_TRUE(getsReady(slot_));
  const size_t held = fakeDevice().memory.size();
  for (int failure = 0; failure < 4; ++failure) {  // two allocations, two clearings
    fakeDevice().failAt = static_cast<int>(fakeDevice().calls.size()) + failure;
    const Residuals residuals = captured(static_cast<uint64_t>(failure) + 1);
    fakeDevice().failAt = -1;
    EXPECT_EQ(residuals.encode, nullptr);
    EXPECT_EQ(residuals.reduce, nullptr);
    EXPECT_EQ(fakeDevice().memory.size(), held) << failure;
    EXPECT_EQ(captured(static_cast<uint64_t>(failure) + 100).encode, nullptr)
        << "a later graph of the same calls cannot get some";
    slot_.residuals.giveBack(nullptr);
    slot_.~Slot();
    new (&slot_) Slot(0, "slot", planOf(CallKind::allReduce), kFeedback, nullptr);
    slot_.stats = &comm_.addSlot("slot", "q4", 0.1f);
    ASSERT_TRUE(getsReady(slot_));
  }
}

TEST_F(SlotTest, CapturedResidualsLiveAsLongAsTheSlot) {
  {
    Slot slot(0, "slot", slot_.plan, kFeedback, nullptr);
    ASSERT_TRUE(getsReady(slot));
    for (uint64_t id = 1; id <= 3; ++id)
      for (int call = 0; call < 3; ++call) slot.residualsInCapture(fakeDeviceTable(), id);
    EXPECT_EQ(fakeDevice().memory.size(), 5u + 3u * 3u);
    EXPECT_EQ(fakeDevice().count("release"), 0u);
    slot.residuals.giveBack(nullptr);
  }
  EXPECT_TRUE(test::holdsNothing());
}

TEST_F(SlotTest, GivesAllItsMemoryUp) {
  std::vector<Buffer> buffers;
  {
    Slot slot(0, "slot", slot_.plan, kFeedback, nullptr);
    ASSERT_TRUE(getsReady(slot));
    slot.residualsInCapture(fakeDeviceTable(), 1);
    slot.residuals.giveBack(nullptr);
    slot.giveUp(buffers);
  }
  EXPECT_EQ(fakeDevice().memory.size(), 6u);
  buffers.clear();
  EXPECT_TRUE(fakeDevice().memory.empty());
}

// Found to be no gradient at first, and later that it is one.
TEST_F(SlotTest, WhatWasGivenBackIsAllocatedAgain) {
  {
    Slot slot{1, "slot", planOf(CallKind::allReduce), kFeedback, std::make_unique<Checkup>()};
    slot.stats = slot_.stats;
    for (int time = 0; time < 3; ++time) {
      ASSERT_TRUE(getsReady(slot));
      const PrecisionPlan change{.id = 7, .slot = 1, .runs = {{5, codec::formatOf("h3")}}};
      ASSERT_TRUE(slot.changePlan(fakeDeviceTable(), change).ok()) << time;
      ASSERT_TRUE(slot.enterPlan(fakeDeviceTable(), nullptr).ok());
      ASSERT_TRUE(slot.residualsOfCall(fakeDeviceTable(), &slot, &slot, nullptr).ok());
      std::vector<Buffer> buffers;
      slot.residuals.giveBackUnused();
      slot.release(buffers);
    }
  }
  EXPECT_TRUE(test::holdsNothing());
}

TEST_F(SlotTest, FiguresComeThroughTheMirrorOnceTheCopyIsDone) {
  ASSERT_TRUE(getsReady(slot_));
  slot_.state()->error[0] = 3;
  slot_.state()->power[1] = 7;
  ASSERT_TRUE(slot_.mirrorState(fakeDeviceTable(), nullptr).ok());
  fakeDevice().eventsPending = true;
  slot_.readMirror();
  EXPECT_EQ(slot_.stats->stage[0].error.load(), 0);
  fakeDevice().eventsPending = false;
  slot_.readMirror();
  EXPECT_EQ(slot_.stats->stage[0].error.load(), 3);
  EXPECT_EQ(slot_.stats->stage[1].power.load(), 7);
}

TEST_F(SlotTest, ACompressedCallAddsItsBytes) {
  slot_.countCall(slot_.plan, false);
  slot_.countCall(slot_.plan, false);
  EXPECT_EQ(slot_.calls, 2u);
  EXPECT_EQ(slot_.stats->compressed.load(), 2u);
  EXPECT_EQ(slot_.stats->bytesIn.load(), 2 * kSlotCount * 4);
  EXPECT_EQ(slot_.stats->wireBytes.load(), 2 * slot_.plan.wireBytes());
}

TEST_F(SlotTest, EveryFailedAllocationIsReportedAndNothingLeaks) {
  int failures = 0;
  for (int failAt = 0;; ++failAt) {
    test::resetFakes();
    fakeDevice().failAt = failAt;
    bool succeeded;
    {
      Slot slot(0, "slot", planOf(CallKind::allReduce), kFeedback, nullptr);
      succeeded = slot.allocate(fakeDeviceTable(), nullptr).ok();
      EXPECT_EQ(succeeded, !fakeDevice().memory.empty()) << "a failed slot holds no memory";
    }
    EXPECT_TRUE(test::holdsNothing());
    if (succeeded) break;
    ++failures;
  }
  EXPECT_EQ(failures, 8) << "three buffers, an event, two copies, a clearing, its record";
}

// What the guard has raised is not undercut; whose part of the bucket a rank codes says nothing.
TEST_F(SlotTest, CallsMayBeStatelessUntilThePlanTakesMore) {
  Slot slot{1, "slot", planOf(CallKind::allReduce), kFeedback, std::make_unique<Checkup>()};
  slot.stats = slot_.stats;
  EXPECT_FALSE(slot.mayBeStateless(0));
  slot.statelessPlan = planOf(CallKind::allReduce);
  ASSERT_TRUE(getsReady(slot));
  const auto follow = [&](uint64_t turn, std::vector<wire::Segment> runs) {
    slot.made.nCalls = turn;
    EXPECT_TRUE(slot.changePlan(fakeDeviceTable(), {.id = 7, .slot = 1, .runs = runs}).ok());
  };
  follow(10, {{5, codec::formatOf("h3")}});
  EXPECT_TRUE(slot.mayBeStateless(1000));
  follow(20, {{4, codec::formatOf("h2")}, {1, codec::formatOf("q8")}});
  EXPECT_TRUE(slot.mayBeStateless(1000));
  follow(30, {{2, codec::formatOf("h3")}, {3, codec::formatOf("q8")}});
  EXPECT_TRUE(slot.mayBeStateless(29)) << "a group that is repeated";
  EXPECT_FALSE(slot.mayBeStateless(30));
  follow(40, {{5, codec::formatOf("h3")}});
  EXPECT_FALSE(slot.mayBeStateless(50)) << "for good";
}

TEST_F(SlotTest, CallsMayNotBeStatelessWhereTilesAreKeptRaw) {
  constexpr uint64_t kTiles = 100;
  const CollectivePlan plan = planOf(CallKind::allReduce, kTiles * wire::kTileElems);
  for (const uint64_t nRaw : {0, 1, 2}) {
    Slot slot{1, "slot", plan, kFeedback, std::make_unique<Checkup>()};
    slot.stats = slot_.stats;
    slot.statelessPlan = plan;
    ASSERT_TRUE(getsReady(slot));
    std::vector<wire::Segment> runs{{kTiles - nRaw, codec::formatOf("h3")}};
    if (nRaw > 0) runs.push_back({nRaw, codec::formatOf("bf16")});
    ASSERT_TRUE(slot.changePlan(fakeDeviceTable(), {.id = 7, .slot = 1, .runs = runs}).ok());
    EXPECT_EQ(slot.mayBeStateless(10), nRaw == 0) << nRaw;
  }
}

// Whoever chose it: a recorded plan may come from anywhere.
TEST_F(SlotTest, APlanThatDoesNotFitTheWorkspaceIsRefused) {
  constexpr uint64_t kTiles = 600;
  Slot slot{1, "slot", planOf(CallKind::allReduce, kTiles * wire::kTileElems), kFeedback,
            std::make_unique<Checkup>()};
  slot.stats = slot_.stats;
  ASSERT_TRUE(getsReady(slot));
  const auto change = [&](wire::CodecFormat codec) {
    return slot.changePlan(fakeDeviceTable(), {.id = 7, .slot = 1, .runs = {{kTiles, codec}}}).ok();
  };
  EXPECT_TRUE(change(codec::formatOf("q8")));
  EXPECT_FALSE(change(codec::formatOf("fp16")));
  EXPECT_LE(slot.planInForce().bufferBytes(), slot.roomBytes());
}

}  // namespace
}  // namespace cinch
