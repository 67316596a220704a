#include <atomic>
#include <cmath>
#include <latch>
#include <thread>
#include <vector>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

TEST(Event, neverRecordedIsDone) {
  std::atomic<bool> ran{false};
  auto work = [&] { ran = true; };
  TestEvent event;
  TestStream stream;
  EXPECT_CUDA_OK(cudaEventQuery(event));
  EXPECT_CUDA_OK(cudaEventSynchronize(event));
  EXPECT_CUDA_OK(cudaStreamWaitEvent(stream, event));
  launch(stream, work);
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_TRUE(ran);
}

TEST(Event, isDoneWithTheWorkBeforeIt) {
  Gate before, after;
  TestStream stream;
  TestEvent event;
  before.block(stream);
  EXPECT_CUDA_OK(cudaEventRecord(event, stream));
  after.block(stream);
  EXPECT_CUDA(cudaErrorNotReady, cudaEventQuery(event));
  before.open();
  EXPECT_CUDA_OK(cudaEventSynchronize(event));  // although the stream is still busy
  EXPECT_CUDA_OK(cudaEventQuery(event));
  EXPECT_CUDA(cudaErrorNotReady, cudaStreamQuery(stream));
  after.open();
  cudaGetLastError();
}

TEST(Event, holdsUpTheWaitingStreamOnly) {
  Gate gate;
  std::atomic<bool> waited{false}, free{false};
  auto waiting = [&] { waited = true; };
  auto running = [&] { free = true; };
  TestStream source, waiter, other;
  TestEvent event;
  gate.block(source);
  EXPECT_CUDA_OK(cudaEventRecord(event, source));
  EXPECT_CUDA_OK(cudaStreamWaitEvent(waiter, event));
  launch(waiter, waiting);
  launch(other, running);
  EXPECT_CUDA_OK(cudaStreamSynchronize(other));
  EXPECT_TRUE(free);
  EXPECT_FALSE(waited);
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(waiter));
  EXPECT_TRUE(waited);
}

TEST(Event, aWaitKeepsTheRecordOfItsTime) {
  Gate first, second;
  TestStream source, later, waiter;
  TestEvent event;
  first.block(source);
  second.block(later);
  EXPECT_CUDA_OK(cudaEventRecord(event, source));
  EXPECT_CUDA_OK(cudaStreamWaitEvent(waiter, event));
  EXPECT_CUDA_OK(cudaEventRecord(event, later));  // does not move the wait
  first.open();
  EXPECT_CUDA_OK(cudaStreamSynchronize(waiter));
  EXPECT_CUDA(cudaErrorNotReady, cudaEventQuery(event));  // the query sees the new record
  second.open();
  EXPECT_CUDA_OK(cudaEventSynchronize(event));
  cudaGetLastError();
}

TEST(Event, recordedAgainAfterItWasDoneIsPending) {
  Gate gate;
  TestStream stream;
  TestEvent event;
  EXPECT_CUDA_OK(cudaEventRecord(event, stream));
  EXPECT_CUDA_OK(cudaEventSynchronize(event));
  gate.block(stream);
  EXPECT_CUDA_OK(cudaEventRecord(event, stream));
  EXPECT_CUDA(cudaErrorNotReady, cudaEventQuery(event));
  gate.open();
  EXPECT_CUDA_OK(cudaEventSynchronize(event));
  cudaGetLastError();
}

TEST(Event, mayBeDestroyedWhilePending) {
  Gate gate;
  std::atomic<bool> ran{false};
  auto work = [&] { ran = true; };
  TestStream source, waiter;
  for (const unsigned int flags : {cudaEventDefault, cudaEventDisableTiming}) {
    cudaEvent_t event = nullptr;
    EXPECT_CUDA_OK(cudaEventCreateWithFlags(&event, flags));
    gate.block(source);
    EXPECT_CUDA_OK(cudaEventRecord(event, source));
    EXPECT_CUDA_OK(cudaStreamWaitEvent(waiter, event));
    EXPECT_CUDA_OK(cudaEventDestroy(event));
    EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaEventQuery(event));
  }
  launch(waiter, work);
  EXPECT_FALSE(ran);
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(waiter));
  EXPECT_TRUE(ran);
  cudaGetLastError();
}

TEST(Event, mayOutliveItsStream) {
  Gate gate;
  TestEvent event;
  cudaStream_t stream = nullptr;
  ASSERT_CUDA_OK(cudaStreamCreate(&stream));
  gate.block(stream);
  EXPECT_CUDA_OK(cudaEventRecord(event, stream));
  EXPECT_CUDA_OK(cudaStreamDestroy(stream));
  EXPECT_CUDA(cudaErrorNotReady, cudaEventQuery(event));
  gate.open();
  EXPECT_CUDA_OK(cudaEventSynchronize(event));
  cudaGetLastError();
}

TEST(Event, timesNeverGoBack) {
  constexpr int kEvents = 100;
  TestStream stream;
  std::vector<cudaEvent_t> events(kEvents);
  for (cudaEvent_t& event : events) {
    ASSERT_CUDA_OK(cudaEventCreate(&event));
    ASSERT_CUDA_OK(cudaEventRecord(event, stream));
  }
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  float sum = 0, whole = -1;
  for (int i = 1; i < kEvents; ++i) {
    float step = -1;
    ASSERT_CUDA_OK(cudaEventElapsedTime(&step, events[i - 1], events[i]));
    EXPECT_GE(step, 0);
    sum += step;
  }
  ASSERT_CUDA_OK(cudaEventElapsedTime(&whole, events.front(), events.back()));
  EXPECT_NEAR(whole, sum, 1e-3f * (1 + whole));
  float back = 1;
  ASSERT_CUDA_OK(cudaEventElapsedTime(&back, events.back(), events.front()));
  EXPECT_EQ(back, -whole);
  for (cudaEvent_t event : events) ASSERT_CUDA_OK(cudaEventDestroy(event));
}

TEST(Event, elapsedTimeNeedsTwoFinishedTimedEvents) {
  Gate gate;
  float ms = 0;
  TestStream stream;
  TestEvent untimed, never(cudaEventDefault), start(cudaEventDefault), end(cudaEventDefault);
  EXPECT_CUDA_OK(cudaEventRecord(untimed, stream));
  EXPECT_CUDA_OK(cudaEventRecord(start, stream));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, untimed, start));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, never));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, nullptr));
  gate.block(stream);
  EXPECT_CUDA_OK(cudaEventRecord(end, stream));
  EXPECT_CUDA(cudaErrorNotReady, cudaEventElapsedTime(&ms, start, end));
  gate.open();
  EXPECT_CUDA_OK(cudaEventSynchronize(end));
  EXPECT_CUDA_OK(cudaEventElapsedTime(&ms, start, end));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaEventElapsedTime(nullptr, start, end));
  cudaGetLastError();
}

TEST(Event, badArguments) {
  cudaEvent_t event = nullptr;
  TestStream stream;
  TestEvent live;
  EXPECT_CUDA(cudaErrorInvalidValue, cudaEventCreate(nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaEventCreateWithFlags(&event, 8));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaEventCreateWithFlags(&event, cudaEventInterprocess));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaEventRecord(nullptr, stream));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaEventSynchronize(nullptr));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaStreamWaitEvent(stream, nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue,
              cudaEventRecordWithFlags(live, stream, cudaEventRecordExternal));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamWaitEvent(stream, live, cudaEventWaitExternal));
  cudaGetLastError();
}

// Threads record, wait for and query one event; what is checked is that nothing is lost or races.
TEST(Event, threadsShareOne) {
  constexpr int kThreads = 6, kRounds = 300;
  TestEvent event(cudaEventDefault);
  std::atomic<int> ran{0};
  auto count = [&] { ++ran; };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      TestStream stream(t % 2);
      for (int i = 0; i < kRounds; ++i) {
        launch(stream, count);
        EXPECT_CUDA_OK(cudaEventRecord(event, stream));
        EXPECT_CUDA_OK(cudaStreamWaitEvent(stream, event));
        if (i % 50 == 0) {
          EXPECT_CUDA_OK(cudaEventSynchronize(event));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, kThreads * kRounds);
}

}  // namespace
}  // namespace cinch::cudart
