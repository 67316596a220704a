// What a capture records, and what it tells of itself.

#include <algorithm>
#include <atomic>
#include <numeric>
#include <vector>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

std::vector<cudaGraphNode_t> nodesOf(cudaGraph_t graph) {
  size_t nNodes = 0;
  EXPECT_CUDA_OK(cudaGraphGetNodes(graph, nullptr, &nNodes));
  std::vector<cudaGraphNode_t> nodes(nNodes);
  EXPECT_CUDA_OK(cudaGraphGetNodes(graph, nodes.data(), &nNodes));
  EXPECT_EQ(nNodes, nodes.size());
  return nodes;
}

std::vector<cudaGraphNodeType> typesOf(cudaGraph_t graph) {
  std::vector<cudaGraphNodeType> types;
  for (const cudaGraphNode_t node : nodesOf(graph)) {
    types.emplace_back();
    EXPECT_CUDA_OK(cudaGraphNodeGetType(node, &types.back()));
  }
  return types;
}

TEST(Capture, runsNothingUntilItIsLaunched) {
  std::atomic<int> runs{0};
  auto work = [&] { ++runs; };
  TestStream stream;
  const TestGraph graph(stream, [&] { launch(stream, work); });
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(runs, 0);
  for (int launches = 1; launches <= 3; ++launches) {
    ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream));
    ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(runs, launches);
  }
}

TEST(Capture, eachKindOfCallIsANodeOfItsType) {
  auto work = [] {};
  int value = 0;
  cudaGraph_t graph = nullptr;
  TestStream stream;
  TestEvent event;
  TestMemory<int> memory(1);
  const TestGraph inner(stream, [&] { launch(stream, work); });
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_CUDA_OK(cudaMemcpyAsync(memory, &value, sizeof value, cudaMemcpyHostToDevice, stream));
  EXPECT_CUDA_OK(cudaMemsetAsync(memory, 1, sizeof value, stream));
  launch(stream, work);
  EXPECT_CUDA_OK(cudaGraphLaunch(inner, stream));
  EXPECT_CUDA_OK(cudaStreamWaitEvent(stream, event, cudaEventWaitExternal));
  EXPECT_CUDA_OK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
  EXPECT_CUDA_OK(cudaEventRecord(event, stream));                                   // no node
  EXPECT_CUDA_OK(cudaStreamWaitEvent(stream, event));                               // nor this
  EXPECT_CUDA_OK(cudaMemsetAsync(memory, 1, 0, stream));                            // nor this
  EXPECT_CUDA_OK(cudaMemcpyAsync(nullptr, nullptr, 0, cudaMemcpyDefault, stream));  // nor this
  ASSERT_CUDA_OK(cudaStreamEndCapture(stream, &graph));
  const std::vector<cudaGraphNodeType> expected = {
      cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeMemset,    cudaGraphNodeTypeHost,
      cudaGraphNodeTypeGraph,  cudaGraphNodeTypeWaitEvent, cudaGraphNodeTypeEventRecord};
  EXPECT_EQ(typesOf(graph), expected);
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
}

TEST(Capture, replaysReadAndWriteTheMemoryOfTheirTime) {
  constexpr int kCount = 100;
  std::vector<int> input(kCount), output(kCount);
  TestStream stream;
  TestMemory<int> memory(kCount);
  int* const values = memory;
  auto negate = [values] {
    for (int i = 0; i < kCount; ++i) values[i] = -values[i];
  };
  const size_t nBytes = kCount * sizeof(int);
  const TestGraph graph(stream, [&] {
    EXPECT_CUDA_OK(cudaMemcpyAsync(memory, input.data(), nBytes, cudaMemcpyHostToDevice, stream));
    EXPECT_CUDA_OK(cudaMemsetAsync(memory, 0, sizeof(int), stream));
    launch(stream, negate);
    EXPECT_CUDA_OK(cudaMemcpyAsync(output.data(), memory, nBytes, cudaMemcpyDeviceToHost, stream));
  });
  for (int round = 1; round < 50; ++round) {
    std::iota(input.begin(), input.end(), round * 1000);
    ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream));
    ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(output[0], 0);
    for (int i = 1; i < kCount; ++i) ASSERT_EQ(output[i], -(round * 1000 + i));
  }
}

TEST(Capture, anEmptyGraphIsAGraph) {
  TestStream stream;
  const TestGraph graph(stream, [] {});
  EXPECT_CUDA_OK(cudaGraphLaunch(graph, stream));
  EXPECT_CUDA_OK(cudaStreamSynchronize(stream));
}

TEST(Capture, otherStreamsRunMeanwhile) {
  std::atomic<int> captured{0}, eager{0};
  auto later = [&] { ++captured; };
  auto now = [&] { ++eager; };
  TestStream stream, other;
  TestEvent event;
  const TestGraph graph(stream, [&] {
    launch(stream, later);
    launch(other, now);
    EXPECT_CUDA_OK(cudaEventRecord(event, other));
  });
  ASSERT_CUDA_OK(cudaEventSynchronize(event));
  EXPECT_EQ(eager, 1);
  EXPECT_EQ(captured, 0);
}

// Work that the stream had before the capture neither waits for it nor becomes part of it.
TEST(Capture, earlierWorkOfTheStreamGoesOn) {
  Gate gate;
  std::atomic<int> early{0}, captured{0};
  auto before = [&] { ++early; };
  auto later = [&] { ++captured; };
  TestStream stream;
  gate.block(stream);
  launch(stream, before);
  const TestGraph graph(stream, [&] { launch(stream, later); });
  EXPECT_EQ(early, 0);
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(early, 1);
  EXPECT_EQ(captured, 0);
}

TEST(CaptureInfo, tellsStatusIdGraphAndDependencies) {
  auto work = [] {};
  unsigned long long id = 0, sameId = 0;
  size_t nNodes = 9;
  cudaGraph_t graph = nullptr, ended = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  TestStream stream, other;
  EXPECT_CUDA_OK(cudaStreamGetCaptureInfo(stream, &status, &id));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  EXPECT_EQ(id, 0u);
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_CUDA_OK(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &nNodes));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(nNodes, 0u);
  EXPECT_NE(id, 0u);
  launch(stream, work);
  EXPECT_CUDA_OK(
      cudaStreamGetCaptureInfo(stream, &status, &sameId, &graph, &nodes, &edges, &nNodes));
  EXPECT_EQ(sameId, id);
  ASSERT_EQ(nNodes, 1u);
  EXPECT_EQ(edges[0].type, 0);
  EXPECT_EQ(nodes[0], nodesOf(graph)[0]);
  EXPECT_EQ(captureStatus(other), cudaStreamCaptureStatusNone);
  ASSERT_CUDA_OK(cudaStreamEndCapture(stream, &ended));
  EXPECT_EQ(ended, graph);
  EXPECT_EQ(captureStatus(stream), cudaStreamCaptureStatusNone);
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
}

TEST(CaptureInfo, idsAreNeverUsedAgain) {
  std::vector<unsigned long long> ids;
  TestStream stream;
  for (int i = 0; i < 20; ++i) {
    const TestGraph graph(stream, [&] {
      cudaStreamCaptureStatus status;
      EXPECT_CUDA_OK(cudaStreamGetCaptureInfo(stream, &status, &ids.emplace_back()));
    });
  }
  EXPECT_EQ(ids.size(), 20u);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
}

TEST(Capture, badArguments) {
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(&graph);
  cudaStreamCaptureStatus status;
  const cudaGraphEdgeData* edges = nullptr;
  TestStream stream;
  const auto global = cudaStreamCaptureModeGlobal;
  EXPECT_CUDA(cudaErrorInvalidValue,
              cudaStreamBeginCapture(stream, static_cast<cudaStreamCaptureMode>(3)));
  EXPECT_CUDA(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(nullptr, global));
  EXPECT_CUDA(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(cudaStreamLegacy, global));
  EXPECT_CUDA(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
  EXPECT_EQ(graph, nullptr);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamIsCapturing(stream, nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr,
                                                              nullptr, &edges, nullptr));
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream, global));
  EXPECT_CUDA(cudaErrorIllegalState, cudaStreamBeginCapture(stream, global));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamEndCapture(stream, nullptr));
  EXPECT_CUDA_OK(cudaStreamEndCapture(stream, &graph));  // none of it did any harm
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
  cudaGetLastError();
}

TEST(Capture, thePerThreadStreamIsLikeAnyOther) {
  std::atomic<int> runs{0};
  auto work = [&] { ++runs; };
  const TestGraph graph(cudaStreamPerThread, [&] { launch(cudaStreamPerThread, work); });
  EXPECT_EQ(runs, 0);
  ASSERT_CUDA_OK(cudaGraphLaunch(graph, cudaStreamPerThread));
  ASSERT_CUDA_OK(cudaStreamSynchronize(cudaStreamPerThread));
  EXPECT_EQ(runs, 1);
}

TEST(Capture, aRefusedCallIsNoNodeAndDoesNoHarm) {
  cudaGraph_t graph = nullptr;
  TestStream stream;
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaLaunchHostFunc(stream, nullptr, nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemsetAsync(&graph, 0, 1, stream));
  EXPECT_CUDA(cudaErrorInvalidValue,
              cudaMemcpyAsync(nullptr, &graph, 1, cudaMemcpyDefault, stream));
  ASSERT_CUDA_OK(cudaStreamEndCapture(stream, &graph));
  EXPECT_TRUE(nodesOf(graph).empty());
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
  cudaGetLastError();
}

}  // namespace
}  // namespace cinch::cudart
