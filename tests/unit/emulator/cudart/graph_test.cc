// Launches of graphs, their life, and user objects.

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

TEST(Graph, runsBetweenTheWorkBeforeAndAfterIt) {
  std::vector<int> order;
  auto before = [&] { order.push_back(1); };
  auto inside = [&] { order.push_back(2); };
  auto after = [&] { order.push_back(3); };
  for (const unsigned int flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    order.clear();
    Gate gate;
    TestStream stream(flags), captured;
    const TestGraph graph(captured, [&] { launch(captured, inside); });
    gate.block(stream);
    launch(stream, before);
    ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream));
    launch(stream, after);
    gate.open();
    ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  }
}

TEST(Graph, launchReturnsBeforeTheWorkIsDone) {
  Gate gate;
  TestStream stream;
  const TestGraph graph(stream, [&] { gate.block(stream); });
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream));
  EXPECT_CUDA(cudaErrorNotReady, cudaStreamQuery(stream));
  gate.open();
  EXPECT_CUDA_OK(cudaStreamSynchronize(stream));
  cudaGetLastError();
}

// Launches on several streams at once: one runs after the other, with all branches.
TEST(Graph, launchesNeverOverlap) {
  constexpr int kLaunches = 300;
  std::atomic<int> inside{0}, ran{0}, overlaps{0};
  auto enter = [&] { overlaps += inside++ != 0; };
  auto work = [&] { ++ran; };
  auto leave = [&] { --inside; };
  TestStream origin, fork, one, two, three(cudaStreamDefault);
  TestEvent event;
  const TestGraph graph(origin, [&] {
    launch(origin, enter);
    order(origin, fork, event);
    launch(fork, work);
    order(fork, origin, event);
    launch(origin, leave);
  });
  const cudaStream_t streams[] = {one, two, three, nullptr};
  std::vector<std::thread> threads;
  for (const cudaStream_t stream : streams) {
    threads.emplace_back([&graph, stream] {
      for (int i = 0; i < kLaunches; ++i) EXPECT_CUDA_OK(cudaGraphLaunch(graph, stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(ran, 4 * kLaunches);
}

// A launch is one piece of work to the stream: what another thread enqueues comes before or after.
TEST(Graph, otherThreadsWorkNeverComesBetweenNodes) {
  constexpr int kRounds = 300;
  int step = 0, violations = 0;  // on one stream, so that nothing runs at once
  auto first = [&] { violations += step++ != 0; };
  auto last = [&] { violations += step-- != 1; };
  auto nothing = [] {};
  auto outside = [&] { violations += step != 0; };
  for (const unsigned int flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    TestStream stream(flags);
    // Work of the null stream stands apart from blocking streams as a whole, too.
    const cudaStream_t outsider = flags == cudaStreamDefault ? nullptr : cudaStream_t(stream);
    const TestGraph graph(stream, [&] {
      launch(stream, first);
      for (int i = 0; i < 20; ++i) launch(stream, nothing);
      launch(stream, last);
    });
    std::thread thread([&] {
      for (int i = 0; i < kRounds; ++i) launch(outsider, outside);
    });
    for (int i = 0; i < kRounds; ++i) EXPECT_CUDA_OK(cudaGraphLaunch(graph, stream));
    thread.join();
    ASSERT_CUDA_OK(cudaDeviceSynchronize());
    EXPECT_EQ(violations, 0);
    EXPECT_EQ(step, 0);
  }
}

TEST(Graph, mayBeDestroyedWhileItRuns) {
  for (int round = 0; round < 50; ++round) {
    Gate gate;
    std::atomic<int> runs{0};
    auto work = [&] { ++runs; };
    TestStream stream, fork;
    TestEvent event;
    {
      const TestGraph graph(stream, [&] {
        gate.block(stream);
        order(stream, fork, event);
        launch(fork, work);
        launch(stream, work);
        order(fork, stream, event);
      });
      for (int i = 0; i < 3; ++i) ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream));
    }
    EXPECT_EQ(runs, 0);
    gate.open();
    ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(runs, 6);
  }
}

TEST(Graph, theDeviceWaitsForItsForks) {
  Gate gate;
  std::atomic<bool> ran{false};
  auto work = [&] { ran = true; };
  TestStream stream, fork;
  TestEvent event;
  const TestGraph graph(stream, [&] {
    order(stream, fork, event);
    gate.block(fork);
    launch(fork, work);
    order(fork, stream, event);
  });
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream));
  std::thread opener([&] { gate.open(); });
  ASSERT_CUDA_OK(cudaDeviceSynchronize());
  opener.join();
  EXPECT_TRUE(ran);
}

TEST(Graph, mayBeLaunchedInACapture) {
  std::atomic<int> runs{0};
  auto work = [&] { ++runs; };
  TestStream stream, fork;
  TestEvent event;
  const TestGraph inner(stream, [&] {
    order(stream, fork, event);
    launch(fork, work);
    order(fork, stream, event);
  });
  const TestGraph outer(stream, [&] {
    for (int i = 0; i < 3; ++i) EXPECT_CUDA_OK(cudaGraphLaunch(inner, stream));
  });
  EXPECT_EQ(runs, 0);
  for (int i = 0; i < 5; ++i) ASSERT_CUDA_OK(cudaGraphLaunch(outer, stream));
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(runs, 15);
}

class GraphUpdate : public testing::Test {
 protected:
  template <class Body>
  cudaGraph_t capture(Body&& body) {
    cudaGraph_t graph = nullptr;
    EXPECT_CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    body();
    EXPECT_CUDA_OK(cudaStreamEndCapture(stream_, &graph));
    return graph;
  }

  // What updating `exec_`, two host functions in a row, with a capture of `body` comes to.
  template <class Body>
  void expectRefused(cudaGraphExecUpdateResult expected, Body&& body) {
    const cudaGraph_t other = capture(body);
    cudaGraphExecUpdateResultInfo info = {};
    EXPECT_CUDA(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec_, other, &info));
    EXPECT_EQ(info.result, expected);
    EXPECT_CUDA_OK(cudaGraphDestroy(other));
  }

  int old_ = 0, new_ = 0;
  std::function<void()> countOld_ = [this] { ++old_; }, countNew_ = [this] { ++new_; };
  TestStream stream_, fork_;
  TestEvent event_;
  const TestGraph exec_{stream_, [this] {
                          launch(stream_, countOld_);
                          launch(stream_, countOld_);
                        }};
};

TEST_F(GraphUpdate, laterLaunchesMakeTheNewCalls) {
  Gate gate;
  const cudaGraph_t next = capture([this] {
    launch(stream_, countNew_);
    launch(stream_, countOld_);
  });
  cudaGraphExecUpdateResultInfo info = {};
  gate.block(stream_);
  ASSERT_CUDA_OK(cudaGraphLaunch(exec_, stream_));  // stays what it was
  ASSERT_CUDA_OK(cudaGraphExecUpdate(exec_, next, &info));
  EXPECT_EQ(info.result, cudaGraphExecUpdateSuccess);
  EXPECT_CUDA_OK(cudaGraphDestroy(next));
  ASSERT_CUDA_OK(cudaGraphLaunch(exec_, stream_));
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(old_, 3);
  EXPECT_EQ(new_, 1);
}

TEST_F(GraphUpdate, anotherShapeIsRefusedAndChangesNothing) {
  const TestMemory<char> memory(1);
  expectRefused(cudaGraphExecUpdateErrorTopologyChanged, [this] { launch(stream_, countNew_); });
  expectRefused(cudaGraphExecUpdateErrorNodeTypeChanged, [&] {
    launch(stream_, countNew_);
    EXPECT_CUDA_OK(cudaMemsetAsync(memory, 0, 1, stream_));
  });
  expectRefused(cudaGraphExecUpdateErrorTopologyChanged, [this] {
    order(stream_, fork_, event_);
    launch(stream_, countNew_);
    launch(fork_, countNew_);
    order(fork_, stream_, event_);
  });
  ASSERT_CUDA_OK(cudaGraphLaunch(exec_, stream_));
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(old_, 2);
  EXPECT_EQ(new_, 0);
  cudaGetLastError();
}

TEST(Graph, listsItsNodesIntoTheRoomThatThereIs) {
  auto work = [] {};
  cudaGraph_t graph = nullptr;
  TestStream stream;
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < 3; ++i) launch(stream, work);
  ASSERT_CUDA_OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t nodes[5];
  size_t nNodes = 2;
  EXPECT_CUDA_OK(cudaGraphGetNodes(graph, nodes, &nNodes));
  EXPECT_EQ(nNodes, 2u);
  nNodes = 5;
  EXPECT_CUDA_OK(cudaGraphGetNodes(graph, nodes, &nNodes));
  EXPECT_EQ(nNodes, 3u);
  EXPECT_NE(nodes[2], nullptr);
  EXPECT_EQ(nodes[3], nullptr);
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
}

TEST(Graph, badArguments) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphNodeType type;
  size_t nNodes;
  cudaStream_t dead = nullptr;
  TestStream stream;
  ASSERT_CUDA_OK(cudaStreamCreate(&dead));
  ASSERT_CUDA_OK(cudaStreamDestroy(dead));
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA_OK(cudaStreamEndCapture(stream, &graph));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphInstantiate(&exec, nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphInstantiate(nullptr, graph));
  EXPECT_CUDA(cudaErrorInvalidValue,
              cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch));
  ASSERT_CUDA_OK(
      cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaGraphLaunch(exec, dead));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaGraphUpload(exec, dead));
  EXPECT_CUDA_OK(cudaGraphUpload(exec, stream));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphLaunch(nullptr, stream));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphExecUpdate(exec, graph, nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphGetNodes(graph, nullptr, nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphNodeGetType(nullptr, &type));
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
  EXPECT_CUDA_OK(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphGetNodes(graph, nullptr, &nNodes));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphDestroy(graph));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphLaunch(exec, stream));
  cudaGetLastError();
}

}  // namespace
}  // namespace cinch::cudart
