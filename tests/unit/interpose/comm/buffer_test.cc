#include "interpose/comm/buffer.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

class BufferTest : public testing::Test {
 protected:
  void SetUp() override { test::resetFakes(); }
};

TEST_F(BufferTest, FreesWhatItOwnsOnce) {
  {
    auto made = Buffer::allocate(fakeDeviceTable(), 100, Buffer::Where::device);
    ASSERT_TRUE(made.ok());
    Buffer first = std::move(made.value());
    Buffer second;
    second = std::move(first);
    EXPECT_EQ(second.bytes(), 100u);
    EXPECT_EQ(fakeDevice().memory.size(), 1u);
  }
  EXPECT_TRUE(fakeDevice().memory.empty());
  EXPECT_EQ(fakeDevice().count("release"), 1u);
}

TEST_F(BufferTest, NoBytesNeedNoMemory) {
  auto made = Buffer::allocate(fakeDeviceTable(), 0, Buffer::Where::host);
  ASSERT_TRUE(made.ok());
  EXPECT_FALSE(made.value());
  EXPECT_EQ(fakeDevice().count("allocate"), 0u);
}

TEST_F(BufferTest, AFailureNamesSizeAndCause) {
  fakeDevice().failAt = 0;
  const auto made = Buffer::allocate(fakeDeviceTable(), 12345, Buffer::Where::device);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().status, Status::cudaError);
  EXPECT_NE(made.error().message.find("12345"), std::string::npos);
  EXPECT_NE(made.error().message.find("injectedError"), std::string::npos);
}

TEST_F(BufferTest, TheCallersDeviceIsPutBack) {
  fakeDevice().device = 3;
  {
    const CurrentDevice current(fakeDeviceTable(), 1);
    EXPECT_EQ(fakeDevice().device, 1);
  }
  EXPECT_EQ(fakeDevice().device, 3);
  { const CurrentDevice same(fakeDeviceTable(), 3); }
  EXPECT_EQ(fakeDevice().count("setDevice"), 2u) << "nothing is set where nothing changes";
}

TEST_F(BufferTest, EventsAreDestroyedOnce) {
  {
    auto made = Event::create(fakeDeviceTable());
    ASSERT_TRUE(made.ok());
    Event event = std::move(made.value());
    EXPECT_TRUE(event.done());
    fakeDevice().eventsPending = true;
    EXPECT_FALSE(event.done());
    EXPECT_EQ(fakeDevice().events.size(), 1u);
  }
  EXPECT_TRUE(fakeDevice().events.empty());
}

}  // namespace
}  // namespace cinch
