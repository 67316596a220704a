// Captures that spread over several streams.

#include <atomic>
#include <functional>
#include <latch>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

class CaptureFork : public testing::Test {
 protected:
  void begin() {
    ASSERT_CUDA_OK(cudaStreamBeginCapture(origin_, cudaStreamCaptureModeThreadLocal));
  }

  std::atomic<int> runs_{0};
  std::function<void()> work_ = [this] { ++runs_; };
  TestStream origin_, fork_, other_;
  TestEvent event_, another_;
};

TEST_F(CaptureFork, branchesRunAtOnce) {
  std::latch* both = nullptr;
  auto meet = [&] { both->arrive_and_wait(); };  // hangs if the branches ran one by one
  const TestGraph graph(origin_, [&] {
    order(origin_, fork_, event_);
    launch(origin_, meet);
    launch(fork_, meet);
    order(fork_, origin_, event_);
  });
  for (int i = 0; i < 20; ++i) {
    std::latch latch(2);
    both = &latch;
    ASSERT_CUDA_OK(cudaGraphLaunch(graph, other_));
    ASSERT_CUDA_OK(cudaStreamSynchronize(other_));
    EXPECT_TRUE(latch.try_wait());
  }
}

TEST_F(CaptureFork, forkAndJoinKeepTheirOrder) {
  Gate gate;
  int steps = 0, first = 0, forked = 0, last = 0;
  auto one = [&] { first = ++steps; };
  auto two = [&] { forked = ++steps; };
  auto three = [&] { last = ++steps; };
  const TestGraph graph(origin_, [&] {
    gate.block(origin_);
    launch(origin_, one);
    order(origin_, fork_, event_);
    launch(fork_, two);
    order(fork_, origin_, event_);
    launch(origin_, three);
  });
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, other_));
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(other_));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(forked, 2);
  EXPECT_EQ(last, 3);
}

// A fork starts after the work that its launch comes after, also where the origin had nothing yet.
TEST_F(CaptureFork, aForkWaitsForTheLaunchingStream) {
  Gate gate;
  const TestGraph graph(origin_, [&] {
    order(origin_, fork_, event_);
    launch(fork_, work_);
    order(fork_, origin_, event_);
  });
  gate.block(other_);
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, other_));
  EXPECT_EQ(runs_, 0);
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(other_));
  EXPECT_EQ(runs_, 1);
}

TEST_F(CaptureFork, laterWorkWaitsForForks) {
  Gate gate;
  const TestGraph graph(origin_, [&] {
    order(origin_, fork_, event_);
    gate.block(fork_);
    order(fork_, origin_, event_);
  });
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, other_));
  launch(other_, work_);
  EXPECT_CUDA(cudaErrorNotReady, cudaStreamQuery(other_));
  EXPECT_EQ(runs_, 0);
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(other_));
  EXPECT_EQ(runs_, 1);
  cudaGetLastError();
}

TEST_F(CaptureFork, nestedForksJoinThroughEachOther) {
  TestStream nested;
  const TestGraph graph(origin_, [&] {
    order(origin_, fork_, event_);
    launch(fork_, work_);
    order(fork_, nested, event_);
    launch(nested, work_);
    order(nested, fork_, event_);
    order(fork_, origin_, another_);
    EXPECT_EQ(captureStatus(nested), cudaStreamCaptureStatusActive);
  });
  EXPECT_EQ(captureStatus(nested), cudaStreamCaptureStatusNone);
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, other_));
  ASSERT_CUDA_OK(cudaStreamSynchronize(other_));
  EXPECT_EQ(runs_, 2);
}

TEST_F(CaptureFork, aForkMayJoinWithoutTheStreamThatItCameFrom) {
  TestStream nested;
  const TestGraph graph(origin_, [&] {
    order(origin_, fork_, event_);
    order(fork_, nested, event_);
    launch(nested, work_);
    order(nested, origin_, event_);  // fork_ has no work of its own
  });
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, other_));
  ASSERT_CUDA_OK(cudaStreamSynchronize(other_));
  EXPECT_EQ(runs_, 1);
}

TEST_F(CaptureFork, anUnjoinedForkIsAnError) {
  begin();
  order(origin_, fork_, event_);
  launch(fork_, work_);
  expectFailedCapture(cudaErrorStreamCaptureUnjoined, origin_);
  EXPECT_EQ(captureStatus(fork_), cudaStreamCaptureStatusNone);
  launch(fork_, work_);  // runs again as ever
  ASSERT_CUDA_OK(cudaStreamSynchronize(fork_));
  EXPECT_EQ(runs_, 1);
}

TEST_F(CaptureFork, workAfterTheJoinIsUnjoined) {
  begin();
  order(origin_, fork_, event_);
  launch(fork_, work_);
  order(fork_, origin_, event_);
  launch(fork_, work_);
  expectFailedCapture(cudaErrorStreamCaptureUnjoined, origin_);
}

TEST_F(CaptureFork, aForkWithoutWorkNeedsNoJoin) {
  const TestGraph graph(origin_, [&] {
    launch(origin_, work_);
    order(origin_, fork_, event_);
  });
  EXPECT_EQ(captureStatus(fork_), cudaStreamCaptureStatusNone);
}

TEST_F(CaptureFork, aForkCannotEndTheCapture) {
  cudaGraph_t graph = nullptr;
  begin();
  order(origin_, fork_, event_);
  EXPECT_CUDA(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(fork_, &graph));
  EXPECT_EQ(captureStatus(origin_), cudaStreamCaptureStatusInvalidated);
  expectFailedCapture(cudaErrorStreamCaptureInvalidated, origin_);
}

TEST_F(CaptureFork, waitingForEagerWorkBreaksIsolation) {
  ASSERT_CUDA_OK(cudaEventRecord(event_, other_));
  ASSERT_CUDA_OK(cudaEventSynchronize(event_));  // even where it is done
  begin();
  EXPECT_CUDA(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(origin_, event_));
  EXPECT_CUDA(cudaErrorStreamCaptureInvalidated, cudaStreamWaitEvent(origin_, event_));
  expectFailedCapture(cudaErrorStreamCaptureInvalidated, origin_);
}

TEST_F(CaptureFork, anEventThatWasNeverRecordedOrdersNothing) {
  const TestGraph graph(origin_, [&] {
    EXPECT_CUDA_OK(cudaStreamWaitEvent(origin_, event_));
    launch(origin_, work_);
  });
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, origin_));
  ASSERT_CUDA_OK(cudaStreamSynchronize(origin_));
  EXPECT_EQ(runs_, 1);
}

TEST_F(CaptureFork, twoCapturesCannotMerge) {
  begin();
  ASSERT_CUDA_OK(cudaStreamBeginCapture(fork_, cudaStreamCaptureModeThreadLocal));
  EXPECT_CUDA_OK(cudaEventRecord(event_, origin_));
  EXPECT_CUDA(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(fork_, event_));
  expectFailedCapture(cudaErrorStreamCaptureInvalidated, fork_);
  expectFailedCapture(cudaErrorStreamCaptureInvalidated, origin_);
}

TEST_F(CaptureFork, anEventOfAnEndedCaptureCannotBeUsedUntilItIsRecordedAgain) {
  {
    const TestGraph graph(origin_, [&] { EXPECT_CUDA_OK(cudaEventRecord(event_, origin_)); });
  }
  float milliseconds = 0;
  TestEvent timed(cudaEventDefault);
  EXPECT_CUDA(cudaErrorCapturedEvent, cudaStreamWaitEvent(other_, event_));
  EXPECT_CUDA(cudaErrorCapturedEvent, cudaEventQuery(event_));
  EXPECT_CUDA(cudaErrorCapturedEvent, cudaEventSynchronize(event_));
  {
    const TestGraph graph(origin_, [&] { EXPECT_CUDA_OK(cudaEventRecord(timed, origin_)); });
  }
  EXPECT_CUDA(cudaErrorCapturedEvent, cudaEventElapsedTime(&milliseconds, timed, timed));
  begin();
  EXPECT_CUDA(cudaErrorCapturedEvent, cudaStreamWaitEvent(origin_, event_));
  expectFailedCapture(cudaErrorStreamCaptureInvalidated, origin_);
  EXPECT_CUDA_OK(cudaEventRecord(event_, other_));
  EXPECT_CUDA_OK(cudaStreamWaitEvent(origin_, event_));
  EXPECT_CUDA_OK(cudaEventSynchronize(event_));
  cudaGetLastError();
}

// A recording keeps its meaning when the event is recorded elsewhere: the fork is of that time.
TEST_F(CaptureFork, joinsOnlyWhatTheEventStoodFor) {
  begin();
  order(origin_, fork_, event_);
  launch(fork_, work_);
  EXPECT_CUDA_OK(cudaEventRecord(event_, fork_));
  launch(fork_, work_);
  EXPECT_CUDA_OK(cudaStreamWaitEvent(origin_, event_));  // the first of the two
  expectFailedCapture(cudaErrorStreamCaptureUnjoined, origin_);
}

TEST_F(CaptureFork, dependenciesOfAJoinAreAllTips) {
  cudaStreamCaptureStatus status;
  size_t nNodes = 0;
  const cudaGraphNode_t* nodes = nullptr;
  const TestGraph graph(origin_, [&] {
    launch(origin_, work_);
    order(origin_, fork_, event_);
    launch(fork_, work_);
    launch(origin_, work_);
    order(fork_, origin_, event_);
    EXPECT_CUDA_OK(
        cudaStreamGetCaptureInfo(origin_, &status, nullptr, nullptr, &nodes, nullptr, &nNodes));
    EXPECT_EQ(nNodes, 2u);
    launch(origin_, work_);
    EXPECT_CUDA_OK(
        cudaStreamGetCaptureInfo(origin_, &status, nullptr, nullptr, &nodes, nullptr, &nNodes));
    EXPECT_EQ(nNodes, 1u);
  });
}

}  // namespace
}  // namespace cinch::cudart
