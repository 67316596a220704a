// External events: the ties between launches of graphs and eager work.

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

class GraphEvent : public testing::Test {
 protected:
  void record(cudaEvent_t event, cudaStream_t stream) {
    EXPECT_CUDA_OK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
  }
  void wait(cudaStream_t stream, cudaEvent_t event) {
    EXPECT_CUDA_OK(cudaStreamWaitEvent(stream, event, cudaEventWaitExternal));
  }

  TestStream stream_, other_;
  TestEvent event_;
};

TEST_F(GraphEvent, aRecordStandsForTheLaunchOnceItIsSubmitted) {
  Gate gate;
  const TestGraph graph(stream_, [&] {
    gate.block(stream_);
    record(event_, stream_);
  });
  EXPECT_CUDA_OK(cudaEventQuery(event_));  // never recorded so far
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream_));
  EXPECT_CUDA(cudaErrorNotReady, cudaEventQuery(event_));
  gate.open();
  EXPECT_CUDA_OK(cudaEventSynchronize(event_));
  cudaGetLastError();
}

TEST_F(GraphEvent, eagerWorkWaitsForTheNodeAndNotForTheGraph) {
  Gate after;
  std::atomic<bool> inside{false}, eager{false};
  auto node = [&] { inside = true; };
  auto work = [&] { eager = inside.load(); };
  const TestGraph graph(stream_, [&] {
    launch(stream_, node);
    record(event_, stream_);
    after.block(stream_);
  });
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream_));
  ASSERT_CUDA_OK(cudaStreamWaitEvent(other_, event_));
  launch(other_, work);
  ASSERT_CUDA_OK(cudaStreamSynchronize(other_));
  EXPECT_TRUE(eager);
  after.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream_));  // the gate ends before the stream
}

TEST_F(GraphEvent, aWaitIsForWhatWasRecordedLastBeforeTheLaunch) {
  Gate first, second;
  std::atomic<int> runs{0};
  auto work = [&] { ++runs; };
  const TestGraph graph(stream_, [&] {
    wait(stream_, event_);
    launch(stream_, work);
  });
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream_));  // never recorded: nothing to wait for
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(runs, 1);
  first.block(other_);
  ASSERT_CUDA_OK(cudaEventRecord(event_, other_));
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream_));
  second.block(other_);
  ASSERT_CUDA_OK(cudaEventRecord(event_, other_));  // later: does not move the launch's wait
  EXPECT_EQ(runs, 1);
  first.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(runs, 2);
  second.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(other_));  // the gate ends before the stream
}

TEST_F(GraphEvent, eachLaunchWaitsForItsOwnRecord) {
  constexpr int kRounds = 200;
  int value = 0;  // ordered by the events alone
  std::vector<int> seen;
  auto produce = [&] { ++value; };
  auto consume = [&] { seen.push_back(value); };
  TestEvent consumed;
  const TestGraph graph(stream_, [&] {
    wait(stream_, event_);
    launch(stream_, consume);
    record(consumed, stream_);
  });
  for (int i = 0; i < kRounds; ++i) {
    launch(other_, produce);
    ASSERT_CUDA_OK(cudaEventRecord(event_, other_));
    ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream_));
    ASSERT_CUDA_OK(cudaStreamWaitEvent(other_, consumed));
  }
  ASSERT_CUDA_OK(cudaDeviceSynchronize());
  ASSERT_EQ(seen.size(), size_t{kRounds});
  for (int i = 0; i < kRounds; ++i) EXPECT_EQ(seen[i], i + 1);
}

// Two graphs and eager work pass one token round, in an order that only external events keep.
TEST_F(GraphEvent, graphsAndStreamsTakeTurns) {
  constexpr int kRounds = 2000;
  int token = 0, violations = 0;  // a data race without the events
  struct Step {
    int* token;
    int* violations;
    int turn;
    void operator()() const {
      *violations += *token % 3 != turn;
      ++*token;
    }
  };
  Step one{&token, &violations, 0}, two{&token, &violations, 1}, three{&token, &violations, 2};
  TestStream third;
  TestEvent events[3];
  const auto captureTurn = [&](Step& step, cudaEvent_t before, cudaEvent_t after) {
    wait(stream_, before);
    launch(stream_, step);
    record(after, stream_);
  };
  const TestGraph first(stream_, [&] { captureTurn(one, events[2], events[0]); });
  const TestGraph second(stream_, [&] { captureTurn(two, events[0], events[1]); });
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_CUDA_OK(cudaGraphLaunch(first, stream_));
    ASSERT_CUDA_OK(cudaGraphLaunch(second, other_));
    ASSERT_CUDA_OK(cudaStreamWaitEvent(third, events[1]));
    launch(third, three);
    ASSERT_CUDA_OK(cudaEventRecord(events[2], third));
  }
  ASSERT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(token, 3 * kRounds);
  EXPECT_EQ(violations, 0);
}

// The same in forks of a graph, which run on queues of their own.
TEST_F(GraphEvent, forksRecordAndWaitToo) {
  constexpr int kRounds = 500;
  int value = 0, violations = 0;
  auto produce = [&] { violations += value++ % 2 != 0; };
  auto consume = [&] { violations += value++ % 2 != 1; };
  TestStream fork;
  TestEvent forked, consumed;
  const TestGraph graph(stream_, [&] {
    order(stream_, fork, forked);
    wait(fork, consumed);
    launch(fork, produce);
    record(event_, fork);
    order(fork, stream_, forked);
  });
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream_));
    ASSERT_CUDA_OK(cudaStreamWaitEvent(other_, event_));
    launch(other_, consume);
    ASSERT_CUDA_OK(cudaEventRecord(consumed, other_));
  }
  ASSERT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(value, 2 * kRounds);
  EXPECT_EQ(violations, 0);
}

TEST_F(GraphEvent, timesTheGraph) {
  float milliseconds = -1;
  TestEvent start(cudaEventDefault), end(cudaEventDefault);
  const TestGraph graph(stream_, [&] {
    record(start, stream_);
    record(end, stream_);
  });
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream_));
  ASSERT_CUDA_OK(cudaEventSynchronize(end));
  ASSERT_CUDA_OK(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 0);
}

TEST_F(GraphEvent, mayBeDestroyedBeforeTheGraphIsLaunched) {
  cudaEvent_t event = nullptr;
  ASSERT_CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const TestGraph graph(stream_, [&] {
    wait(stream_, event);
    record(event, stream_);
  });
  ASSERT_CUDA_OK(cudaEventDestroy(event));
  for (int i = 0; i < 3; ++i) ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream_));
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream_));
}

TEST_F(GraphEvent, isForCapturesOnly) {
  EXPECT_CUDA(cudaErrorInvalidValue,
              cudaEventRecordWithFlags(event_, stream_, cudaEventRecordExternal));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamWaitEvent(stream_, event_, cudaEventWaitExternal));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaEventRecordWithFlags(event_, stream_, 2));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamWaitEvent(stream_, event_, 2));
  cudaGetLastError();
}

// Threads launch graphs that record one event, while others wait for it: nothing hangs or races.
TEST_F(GraphEvent, threadsShareOne) {
  constexpr int kThreads = 4, kRounds = 200;
  std::atomic<int> runs{0};
  auto count = [&] { ++runs; };
  const TestGraph graph(stream_, [&] {
    wait(stream_, event_);
    launch(stream_, count);
    record(event_, stream_);
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      TestStream own(t % 2);
      const cudaStream_t stream = t == 0 ? nullptr : cudaStream_t(own);
      for (int i = 0; i < kRounds; ++i) {
        EXPECT_CUDA_OK(cudaStreamWaitEvent(stream, event_));
        EXPECT_CUDA_OK(cudaGraphLaunch(graph, stream));
        if (i % 50 == 0) {
          EXPECT_CUDA_OK(cudaEventSynchronize(event_));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(runs, kThreads * kRounds);
}

}  // namespace
}  // namespace cinch::cudart
