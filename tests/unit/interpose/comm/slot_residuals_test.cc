#include "interpose/comm/slot_residuals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "interpose/comm/residual_budget.h"
#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

constexpr uint64_t kBucket = 1000;

ResidualRange rangeOf(uint64_t first, uint64_t end) {
  return {.encodeBytes = kBucket, .ownedFirst = first, .ownedEnd = end};
}

class SlotResidualsTest : public testing::Test {
 protected:
  void SetUp() override {
    test::resetFakes();
    before_ = bytesOfResiduals(0);  // that other tests have dropped
  }
  uint64_t held() const { return bytesOfResiduals(0) - before_; }
  void TearDown() override {
    residuals_.giveBack(nullptr);
    EXPECT_TRUE(fakeDevice().memory.empty());
    EXPECT_EQ(held(), 0u);
  }
  void take(uint64_t first, uint64_t end) {
    ASSERT_TRUE(residuals_.take(fakeDeviceTable(), rangeOf(first, end)).ok());
    ASSERT_TRUE(residuals_.refresh(fakeDeviceTable(), this, this, nullptr).ok());
  }
  uint8_t* owned() const { return static_cast<uint8_t*>(residuals_.pointers().reduce); }

  SlotResiduals residuals_;
  uint64_t before_ = 0;
};

TEST_F(SlotResidualsTest, AreThereFromTakeToGiveBack) {
  EXPECT_EQ(residuals_.pointers().encode, nullptr);
  for (int time = 0; time < 3; ++time) {
    take(200, 500);
    EXPECT_TRUE(residuals_.areHeld());
    EXPECT_EQ(residuals_.bytes(), kBucket + 300);
    std::fill_n(owned(), 300, uint8_t{7});
    residuals_.giveBack(nullptr);
    EXPECT_FALSE(residuals_.areHeld());
    EXPECT_FALSE(residuals_.owes(0));
  }
  take(200, 500);
  EXPECT_EQ(std::count(owned(), owned() + 300, 0), 300) << "each time from zero";
  ASSERT_TRUE(residuals_.take(fakeDeviceTable(), rangeOf(200, 500)).ok()) << "once is enough";
  EXPECT_EQ(fakeDevice().memory.size(), 2u);
}

// As one residual of the whole bucket, of which another part is owned each time: what leaves it is
// gone for good.
TEST_F(SlotResidualsTest, StayWithTheirValues) {
  std::mt19937 random(std::random_device{}());
  std::vector<uint8_t> whole(kBucket);
  uint64_t first = 200, end = 500;
  take(first, end);
  for (int move = 0; move < 300; ++move) {
    for (uint64_t at = first; at < end; ++at)
      owned()[at - first] = whole[at] = static_cast<uint8_t>(random());
    const uint64_t a = random() % (kBucket + 1), b = random() % (kBucket + 1);
    std::tie(first, end) = std::minmax(a, b);
    ASSERT_TRUE(residuals_.move(fakeDeviceTable(), rangeOf(first, end), nullptr).ok());
    std::fill(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(first), 0);
    std::fill(whole.begin() + static_cast<ptrdiff_t>(end), whole.end(), 0);
    for (uint64_t at = first; at < end; ++at) ASSERT_EQ(owned()[at - first], whole[at]) << at;
    EXPECT_EQ(residuals_.bytes(), kBucket + end - first) << "of the owned part alone";
  }
}

// Stage 2 then goes without feedback, and stage 1 goes on.
TEST_F(SlotResidualsTest, AMoveThatFailsLeavesNoneOfStageTwo) {
  for (int failure = 0; failure < 3; ++failure) {  // the allocation, the clearing, the copy
    take(200, 500);
    fakeDevice().failAt = static_cast<int>(fakeDevice().calls.size()) + failure;
    EXPECT_FALSE(residuals_.move(fakeDeviceTable(), rangeOf(300, 600), nullptr).ok());
    fakeDevice().failAt = -1;
    EXPECT_EQ(residuals_.pointers().reduce, nullptr);
    EXPECT_NE(residuals_.pointers().encode, nullptr);
    EXPECT_EQ(fakeDevice().memory.size(), 1u) << failure;
    EXPECT_EQ(held(), kBucket);
    EXPECT_TRUE(residuals_.move(fakeDeviceTable(), rangeOf(100, 200), nullptr).ok())
        << "and has them again, where there is memory";
    EXPECT_NE(residuals_.pointers().reduce, nullptr);
    residuals_.giveBack(nullptr);
  }
}

// The program may need all memory by then; what moves was there before.
TEST_F(SlotResidualsTest, AMoveNeedsNoRoomInTheBudget) {
  take(200, 500);
  test::setFree(0);
  ASSERT_TRUE(residuals_.move(fakeDeviceTable(), rangeOf(100, 450), nullptr).ok());
  EXPECT_EQ(held(), kBucket + 350);
}

// Also those of graphs, which live as long as the slot.
TEST_F(SlotResidualsTest, AllCountInTheBudget) {
  ASSERT_TRUE(residuals_.captured(fakeDeviceTable(), rangeOf(200, 500), 1).ok());
  EXPECT_EQ(held(), kBucket + 300);
  take(200, 500);
  EXPECT_EQ(held(), 2 * (kBucket + 300));
  test::setFree(0);
  EXPECT_FALSE(residuals_.captured(fakeDeviceTable(), rangeOf(200, 500), 1).ok());
  std::vector<Buffer> buffers;
  residuals_.giveUp(buffers);
  EXPECT_EQ(held(), kBucket + 300);
}

TEST_F(SlotResidualsTest, AreGivenBackBehindTheStream) {
  take(0, 500);
  const auto* stream = reinterpret_cast<const void*>(0x77);
  residuals_.giveBack(const_cast<void*>(stream));
  EXPECT_EQ(std::ranges::count_if(
                fakeDevice().orderings,
                [&](const auto& each) { return each.call == "giveBack" && each.stream == stream; }),
            2);
  EXPECT_EQ(fakeDevice().count("release"), 0u) << "which would wait for the device";
}

}  // namespace
}  // namespace cinch
