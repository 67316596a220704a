#include "interpose/comm/examiner.h"

#include <gtest/gtest.h>

#include "interpose/comm/memory_reserve.h"
#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDeviceTable;

constexpr uint64_t kTiles = 10;
constexpr size_t kTallyBytes = 2 * kTiles * sizeof(TileTally);

class ExaminerTest : public testing::Test {
 protected:
  void SetUp() override { test::resetFakes(); }

  // Of an ended communicator.
  static void keep(size_t nBytes, Buffer::Where where) {
    std::vector<Buffer> buffers;
    buffers.push_back(std::move(Buffer::allocate(fakeDeviceTable(), nBytes, where).value()));
    MemoryReserve::instance().keep(0, std::move(buffers),
                                   std::move(Event::create(fakeDeviceTable()).value()));
  }
  void examinesAsItShould() {
    Examiner examiner;
    ASSERT_TRUE(examiner.allocate(fakeDeviceTable(), kTiles).ok());
    const std::vector<float> values(kTiles * 1024, 2), others(kTiles * 1024, 3);
    const SlotState state{};
    TallyLaunch launch{.values = values.data(),
                       .others = nullptr,
                       .count = values.size(),
                       .type = ElementType::fp32,
                       .tallies = nullptr};
    ASSERT_TRUE(examiner.noteInput(fakeDeviceTable(), launch, &state, nullptr).ok());
    launch.others = others.data();
    ASSERT_TRUE(examiner.noteResult(fakeDeviceTable(), launch, &state, nullptr).ok());
    ASSERT_TRUE(examiner.isFree());
    for (const TileTally& tile : examiner.own()) EXPECT_EQ(tile.power, 4 * 1024);
    for (const TileTally& tile : examiner.result()) EXPECT_EQ(tile.error, 1024);
  }
};

TEST_F(ExaminerTest, ReadsBackWhatTheDeviceFound) {
  examinesAsItShould();
}

// The copy to the host took the length of the device's buffer, which may have served a larger slot.
TEST_F(ExaminerTest, MemoryThatServedALargerSlotIsAsGood) {
  keep(kTallyBytes * 3 / 2, Buffer::Where::device);
  examinesAsItShould();
  keep(kTallyBytes * 3 / 2, Buffer::Where::host);
  examinesAsItShould();
}

}  // namespace
}  // namespace cinch
