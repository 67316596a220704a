#include "interpose/comm/workspace.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;
using test::Ordering;

int streamOne, streamTwo, streamThree;

// What has happened before a point of a stream: numbers of calls.
using Past = std::set<int>;

// Works out from what the device was asked, and from when graphs were launched, whether each call
// on the workspace runs after those that it must not meet.
class Order {
 public:
  // A call on `stream`, or one of the graph that `captureId` makes.
  int call(void* stream, uint64_t captureId) {
    follow();
    ops_.push_back({"call", stream, nullptr, captureId});
    if (captureId == 0) run(ops_.back(), streams_, Past());
    return captureId == 0 ? last_ : 0;
  }
  // Launches the graph of `captureId`, which has ended; returns its last call.
  int launch(uint64_t captureId, void* stream) {
    follow();
    std::map<const void*, Past> inside;
    const Past base = streams_[stream];
    const auto before = events_;
    graphEvents_ = before;
    Past all = base;
    for (const Ordering& op : ops_)
      if (op.captureId == captureId) run(op, inside, base);
    for (const auto& [id, past] : inside) all.insert(past.begin(), past.end());
    streams_[stream] = all;
    return last_;
  }
  const Past& before(int call) const { return pasts_.at(call); }

 private:
  // Takes over what the device was asked since.
  void follow() {
    for (const Ordering& op : fakeDevice().orderings) {
      ops_.push_back(op);
      if (op.captureId == 0) run(op, streams_, Past());
    }
    fakeDevice().orderings.clear();
  }
  void run(const Ordering& op, std::map<const void*, Past>& streams, const Past& base) {
    Past& now = streams.try_emplace(op.stream, base).first->second;
    if (op.call == "call") {
      pasts_[++last_] = now;
      now.insert(last_);
    } else if (op.call == "eventRecord") {
      (op.captureId == 0 ? events_ : edges_)[op.event] = now;
    } else if (op.call == "eventRecordInGraph") {
      events_[op.event] = now;
    } else {
      const bool isEdge = op.call == "streamWaitEvent" && op.captureId != 0;
      // A graph waits for what was recorded before it was launched.
      auto& events = isEdge ? edges_ : op.captureId == 0 ? events_ : graphEvents_;
      now.insert(events[op.event].begin(), events[op.event].end());
    }
  }

  std::vector<Ordering> ops_;
  std::map<const void*, Past> streams_, events_, edges_, graphEvents_;
  std::map<int, Past> pasts_;
  int last_ = 0;
};

class WorkspaceTest : public testing::Test {
 protected:
  void SetUp() override { test::resetFakes(); }

  // One call that has the workspace for itself.
  int use(void* stream, uint64_t captureId = 0) {
    fakeDevice().captures.clear();
    if (captureId != 0) fakeDevice().captures[stream] = captureId;
    EXPECT_TRUE(workspace_.begin(stream, captureId).ok());
    const int call = order_.call(stream, captureId);
    EXPECT_TRUE(workspace_.end(stream, captureId).ok());
    return call;
  }
  bool allBefore(int call) {
    for (int earlier = 1; earlier < call; ++earlier)
      if (!order_.before(call).contains(earlier)) return false;
    return true;
  }

  Order order_;
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
  EXPECT_TRUE(fakeDevice().events.empty());
}

TEST_F(WorkspaceTest, TheFirstCallWaitsForNothing) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  ASSERT_TRUE(workspace_.begin(&streamOne, 0).ok());
  EXPECT_EQ(fakeDevice().count("streamWaitEvent"), 0u);
}

TEST_F(WorkspaceTest, EveryCallFollowsAllBeforeIt) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  for (int* stream : {&streamOne, &streamOne, &streamTwo, &streamOne, &streamThree, &streamTwo}) {
    const int call = use(stream);
    EXPECT_TRUE(allBefore(call)) << call;
  }
}

TEST_F(WorkspaceTest, EqualHandlesNeedNotBeOneStream) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  use(&streamOne);
  EXPECT_EQ(fakeDevice().count("streamWaitEvent"), 0u);
  use(&streamOne);
  EXPECT_EQ(fakeDevice().count("streamWaitEvent"), 1u);
}

// The calls of a wave share the workspace, on streams of their own; the next one follows them all.
TEST_F(WorkspaceTest, AWaveOnSeveralStreamsIsFollowedAsAWhole) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  use(&streamTwo);
  for (int round = 0; round < 3; ++round) {
    int last = 0;
    for (int* stream : {&streamOne, &streamTwo, &streamThree}) {
      ASSERT_TRUE(workspace_.begin(stream, 0).ok());
      last = order_.call(stream, 0);
    }
    for (int call = last - 2; call <= last; ++call)
      for (int earlier = 1; earlier < last - 2; ++earlier)
        EXPECT_TRUE(order_.before(call).contains(earlier));
    for (int* stream : {&streamOne, &streamTwo, &streamThree})
      ASSERT_TRUE(workspace_.end(stream, 0).ok());
    EXPECT_TRUE(allBefore(use(&streamOne))) << round;
  }
}

TEST_F(WorkspaceTest, GraphsAndStreamsFollowEachOther) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  use(&streamOne);
  use(&streamTwo, 5);
  use(&streamTwo, 5);
  use(&streamThree, 6);
  fakeDevice().captures.clear();
  const auto expectOrder = [&](int call) { EXPECT_TRUE(allBefore(call)) << call; };
  expectOrder(use(&streamOne));
  expectOrder(order_.launch(5, &streamTwo));
  expectOrder(use(&streamOne));
  expectOrder(order_.launch(6, &streamThree));
  expectOrder(order_.launch(5, &streamOne));
  expectOrder(order_.launch(5, &streamTwo));
  expectOrder(use(&streamThree));
}

TEST_F(WorkspaceTest, CallsOfOneCaptureOnSeveralStreamsFollowEachOther) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  for (int* stream : {&streamOne, &streamTwo, &streamOne, &streamThree}) use(stream, 5);
  use(&streamTwo);
  const int last = order_.launch(5, &streamOne);
  ASSERT_EQ(last, 5);
  for (int call = 2; call <= last; ++call) EXPECT_TRUE(allBefore(call)) << call;
}

// An event that was recorded on a stream orders nothing in a capture: CUDA refuses it.
TEST_F(WorkspaceTest, ACallOnAStreamMayComeBetweenThoseOfACapture) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  use(&streamOne, 5);
  use(&streamTwo);
  use(&streamOne, 5);
  use(&streamTwo);
  EXPECT_TRUE(allBefore(order_.launch(5, &streamOne)));
}

TEST_F(WorkspaceTest, TwoCapturesMayBeUnderWayAtOnce) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  use(&streamOne, 5);
  use(&streamTwo, 6);
  use(&streamOne, 5);
  use(&streamTwo, 6);
  EXPECT_TRUE(allBefore(order_.launch(6, &streamTwo)));
  EXPECT_TRUE(allBefore(order_.launch(5, &streamOne)));
  EXPECT_TRUE(allBefore(use(&streamThree)));
}

TEST_F(WorkspaceTest, ACaptureOnSeveralStreamsStaysAChainWhateverComesBetween) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  use(&streamOne, 5);
  use(&streamThree, 6);
  use(&streamThree);
  use(&streamTwo, 5);
  use(&streamOne, 6);
  for (const uint64_t capture : {5, 6, 5}) {
    const int last = order_.launch(capture, &streamOne);
    EXPECT_TRUE(order_.before(last).contains(last - 1)) << "the two calls of graph " << capture;
    EXPECT_TRUE(allBefore(last)) << capture;
  }
}

TEST_F(WorkspaceTest, KeepsNoMoreThanTheOpenCaptures) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  const size_t nBefore = fakeDevice().events.size();
  for (uint64_t capture = 1; capture <= 3 * kMaxOpenCaptures; ++capture) use(&streamOne, capture);
  EXPECT_EQ(fakeDevice().events.size(), nBefore + kMaxOpenCaptures);
}

TEST_F(WorkspaceTest, WhatAllRanksHaveOnlyGrows) {
  EXPECT_EQ(workspace_.capacity(), 0u);
  workspace_.agree(100);
  workspace_.agree(40);
  EXPECT_EQ(workspace_.capacity(), 100u);
}

TEST_F(WorkspaceTest, EveryFailureIsReportedAndNothingLeaks) {
  for (int failAt = 0;; ++failAt) {
    test::resetFakes();
    fakeDevice().failAt = failAt;
    bool succeeded;
    {
      Workspace workspace;
      succeeded = workspace.reserve(fakeDeviceTable(), 64).ok();
    }
    EXPECT_TRUE(fakeDevice().memory.empty());
    EXPECT_TRUE(fakeDevice().events.empty());
    if (succeeded) {
      EXPECT_GE(failAt, 3) << "an event and two buffers can fail";
      break;
    }
  }
}

TEST_F(WorkspaceTest, IsDoneWhenTheLastCallIs) {
  ASSERT_TRUE(workspace_.reserve(fakeDeviceTable(), 100).ok());
  fakeDevice().eventsPending = true;
  EXPECT_TRUE(workspace_.isDone()) << "nothing was begun";
  ASSERT_TRUE(workspace_.end(&streamOne, 0).ok());
  EXPECT_FALSE(workspace_.isDone());
  fakeDevice().eventsPending = false;
  EXPECT_TRUE(workspace_.isDone());
}

}  // namespace
}  // namespace cinch
