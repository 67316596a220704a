#include "interpose/comm/workspace.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/support/fake_device.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

int streamOne, streamTwo;

class WorkspaceTest : public testing::Test {
 protected:
  void SetUp() override { fakeDevice().reset(); }
  Workspace workspace_;
};

TEST_F(WorkspaceTest, GrowsAndKeepsWhatQueuedWorkMayUse) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  const uint8_t* small = workspace_.outgoing();
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 50).ok());
  EXPECT_EQ(workspace_.outgoing(), small) << "enough is left alone";
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 200).ok());
  EXPECT_NE(workspace_.outgoing(), small);
  EXPECT_EQ(fakeDevice().memory.size(), 4u);
  EXPECT_EQ(fakeDevice().count("release"), 0u);
}

TEST_F(WorkspaceTest, FreesAllAtTheEnd) {
  {
    Workspace workspace;
    ASSERT_TRUE(workspace.reserve(fakeDeviceTable(), 100).ok());
    ASSERT_TRUE(workspace.reserve(fakeDeviceTable(), 200).ok());
  }
  EXPECT_TRUE(fakeDevice().memory.empty());
  EXPECT_EQ(fakeDevice().events, 0);
}

TEST_F(WorkspaceTest, EveryCallWaitsForTheOneBefore) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  ASSERT_TRUE(workspace_.begin(&streamOne).ok());
  EXPECT_EQ(fakeDevice().count("streamWaitEvent"), 0u);
  ASSERT_TRUE(workspace_.end(&streamOne).ok());
  ASSERT_TRUE(workspace_.begin(&streamOne).ok());
  EXPECT_EQ(fakeDevice().count("streamWaitEvent"), 1u) << "equal handles need not be one stream";
  ASSERT_TRUE(workspace_.end(&streamOne).ok());
  ASSERT_TRUE(workspace_.begin(&streamTwo).ok());
  EXPECT_EQ(fakeDevice().count("streamWaitEvent"), 2u);
}

TEST_F(WorkspaceTest, EveryFailureIsReportedAndNothingLeaks) {
  for (int failAt = 0;; ++failAt) {
    fakeDevice().reset();
    fakeDevice().failAt = failAt;
    bool succeeded;
    {
      Workspace workspace;
      succeeded = workspace.reserve(fakeDeviceTable(), 64).ok();
    }
    EXPECT_TRUE(fakeDevice().memory.empty());
    EXPECT_EQ(fakeDevice().events, 0);
    if (succeeded) {
      EXPECT_GE(failAt, 3) << "an event and two buffers can fail";
      break;
    }
  }
}

TEST_F(WorkspaceTest, DrainsOnlyWhatWasUsed) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  ASSERT_TRUE(workspace_.drain(fakeDeviceTable()).ok());
  EXPECT_EQ(fakeDevice().count("eventSynchronize"), 0u);
  ASSERT_TRUE(workspace_.end(&streamOne).ok());
  ASSERT_TRUE(workspace_.drain(fakeDeviceTable()).ok());
  EXPECT_EQ(fakeDevice().count("eventSynchronize"), 1u);
}

}  // namespace
}  // namespace cinch
