#include "interpose/comm/memory_reserve.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

class MemoryReserveTest : public testing::Test {
 protected:
  void SetUp() override { test::resetFakes(); }
  void TearDown() override {
    fakeDevice().eventsPending = false;
    EXPECT_TRUE(test::holdsNothing());
  }

  static Buffer allocate(size_t nBytes, Buffer::Where where = Buffer::Where::device) {
    auto made = reserve().allocate(fakeDeviceTable(), nBytes, where);
    EXPECT_TRUE(made.ok());
    return std::move(made.value());
  }
  // Keeps a new buffer of an ended communicator on device 0.
  static void keep(size_t nBytes) {
    std::vector<Buffer> buffers;
    buffers.push_back(
        std::move(Buffer::allocate(fakeDeviceTable(), nBytes, Buffer::Where::device).value()));
    auto lastUse = Event::create(fakeDeviceTable());
    reserve().keep(0, std::move(buffers), std::move(lastUse.value()));
  }
  static MemoryReserve& reserve() { return MemoryReserve::instance(); }
};

TEST_F(MemoryReserveTest, WhatIsNoLongerUsedServesTheNext) {
  keep(1000);
  const Buffer buffer = allocate(900);
  EXPECT_EQ(buffer.bytes(), 1000u);
  EXPECT_EQ(fakeDevice().count("allocate"), 1u);
  const Buffer other = allocate(900);
  EXPECT_NE(other.as<void>(), buffer.as<void>()) << "one use at a time";
}

TEST_F(MemoryReserveTest, WhatMayBeInUseIsLeftAlone) {
  keep(1000);
  fakeDevice().eventsPending = true;
  reserve().release();
  EXPECT_EQ(fakeDevice().count("release"), 0u);
  const Buffer buffer = allocate(1000);
  EXPECT_EQ(fakeDevice().memory.size(), 2u);
}

TEST_F(MemoryReserveTest, OnlyWhatFitsIsTaken) {
  keep(1000);
  const Buffer larger = allocate(1001), muchSmaller = allocate(100);
  const Buffer onHost = allocate(1000, Buffer::Where::host);
  fakeDevice().device = 1;
  const Buffer elsewhere = allocate(1000);
  EXPECT_EQ(fakeDevice().memory.size(), 5u);
}

TEST_F(MemoryReserveTest, AFailedAllocationIsReported) {
  fakeDevice().failAt = 0;
  EXPECT_FALSE(reserve().allocate(fakeDeviceTable(), 8, Buffer::Where::device).ok());
}

TEST_F(MemoryReserveTest, ReleaseFreesAllThatIsDone) {
  for (int i = 0; i < 10; ++i) keep(100);
  reserve().release();
  EXPECT_TRUE(fakeDevice().memory.empty());
  EXPECT_TRUE(fakeDevice().events.empty());
}

}  // namespace
}  // namespace cinch
