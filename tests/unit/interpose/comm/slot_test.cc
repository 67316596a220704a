#include "interpose/comm/slot.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/interpose/support/fake_device.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

constexpr uint64_t kCount = 5000;

class SlotTest : public testing::Test {
 protected:
  void SetUp() override { fakeDevice().reset(); }

  static AllReducePlan plan() {
    return planAllReduce(kCount, ElementType::fp32, wire::Codec::q4, false, 0, 2);
  }
  Result<void> refresh(const void* send, const void* recv) {
    return slot_.refreshResiduals(fakeDeviceTable(), send, recv, nullptr);
  }
  // Makes the residuals non-zero and says whether refresh() cleared both.
  bool clears(const void* send, const void* recv) {
    slot_.encodeResidual()[kCount - 1] = 1;
    slot_.reduceResidual()[0] = 1;
    EXPECT_TRUE(refresh(send, recv).ok());
    const bool first = slot_.encodeResidual()[kCount - 1] == 0;
    EXPECT_EQ(first, slot_.reduceResidual()[0] == 0);
    return first;
  }

  CommStats comm_{CommLabel{"communicator", 0, 2, "", {}}};
  Slot slot_{0, "slot", plan(), 0.1f};
};

TEST_F(SlotTest, StartsWithZeroResidualsAndOrdinalOne) {
  ASSERT_TRUE(slot_.allocate(fakeDeviceTable(), nullptr).ok());
  EXPECT_EQ(slot_.state()->ordinal, 1u);
  EXPECT_EQ(slot_.state()->poisonOrdinal, 0u);
  ASSERT_TRUE(refresh(&comm_, &comm_).ok());
  EXPECT_TRUE(std::all_of(slot_.encodeResidual(), slot_.encodeResidual() + kCount,
                          [](float value) { return value == 0; }));
}

TEST_F(SlotTest, OnlyTheSameBuffersKeepTheResidual) {
  ASSERT_TRUE(slot_.allocate(fakeDeviceTable(), nullptr).ok());
  slot_.stats = &comm_.addSlot("slot", "q4", 0.1f);
  char a, b;
  EXPECT_TRUE(clears(&a, &b));
  slot_.calls = 1;
  EXPECT_FALSE(clears(&a, &b));
  EXPECT_TRUE(clears(&a, &a));
  EXPECT_TRUE(clears(&b, &a));
  EXPECT_FALSE(clears(&b, &a));
  slot_.dropResiduals();
  EXPECT_TRUE(clears(&b, &a));
  EXPECT_FALSE(clears(&b, &a));
  EXPECT_EQ(slot_.stats->residualResets.load(), 3u) << "the first clearing is no reset";
}

TEST_F(SlotTest, WithoutFeedbackThereIsNoResidual) {
  Slot slot(0, "slot", plan(), 0);
  ASSERT_TRUE(slot.allocate(fakeDeviceTable(), nullptr).ok());
  EXPECT_EQ(slot.encodeResidual(), nullptr);
  EXPECT_EQ(slot.reduceResidual(), nullptr);
  ASSERT_TRUE(slot.refreshResiduals(fakeDeviceTable(), this, this, nullptr).ok());
  EXPECT_EQ(fakeDevice().count("clear"), 0u);
}

TEST_F(SlotTest, FiguresComeThroughTheMirrorOnceTheCopyIsDone) {
  ASSERT_TRUE(slot_.allocate(fakeDeviceTable(), nullptr).ok());
  slot_.stats = &comm_.addSlot("slot", "q4", 0.1f);
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

TEST_F(SlotTest, EveryFailedAllocationIsReportedAndNothingLeaks) {
  int failures = 0;
  for (int failAt = 0;; ++failAt) {
    fakeDevice().reset();
    fakeDevice().failAt = failAt;
    bool succeeded;
    {
      Slot slot(0, "slot", plan(), 0.1f);
      succeeded = slot.allocate(fakeDeviceTable(), nullptr).ok();
      EXPECT_EQ(succeeded, !fakeDevice().memory.empty()) << "a failed slot holds no memory";
    }
    EXPECT_TRUE(fakeDevice().memory.empty());
    EXPECT_EQ(fakeDevice().events, 0);
    if (succeeded) break;
    ++failures;
  }
  EXPECT_EQ(failures, 7) << "four buffers, an event, a copy, its record";
}

}  // namespace
}  // namespace cinch
