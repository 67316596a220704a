// The entry points of programs that were compiled for per-thread default streams.

#include <latch>
#include <thread>

#include "tests/unit/emulator/cudart/support.h"

extern "C" {
cudaError_t cudaMemcpy_ptds(void*, const void*, size_t, cudaMemcpyKind);
cudaError_t cudaMemset_ptds(void*, int, size_t);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t);
cudaError_t cudaStreamQuery_ptsz(cudaStream_t);
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t, cudaHostFn_t, void*);
cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t, cudaGraph_t*);
cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t, cudaStream_t);
}

namespace cinch::cudart {
namespace {

TEST(PerThreadApi, streamZeroIsTheThreadsOwn) {
  std::latch both(2);
  const auto meet = [](void* latch) { static_cast<std::latch*>(latch)->arrive_and_wait(); };
  ASSERT_CUDA_OK(cudaLaunchHostFunc_ptsz(nullptr, meet, &both));
  std::thread([&] {
    EXPECT_CUDA_OK(cudaLaunchHostFunc_ptsz(nullptr, meet, &both));
    EXPECT_CUDA_OK(cudaStreamSynchronize_ptsz(nullptr));
  }).join();
  ASSERT_CUDA_OK(cudaStreamSynchronize_ptsz(nullptr));
  EXPECT_TRUE(both.try_wait());
}

TEST(PerThreadApi, otherStreamsStayWhatTheyAre) {
  Gate gate;
  TestStream stream;
  gate.block(stream);
  EXPECT_CUDA(cudaErrorNotReady, cudaStreamQuery_ptsz(stream));
  EXPECT_CUDA_OK(cudaStreamQuery_ptsz(nullptr));
  gate.open();
  cudaGetLastError();
}

TEST(PerThreadApi, capturesAndLaunches) {
  int runs = 0;
  const auto count = [](void* number) { ++*static_cast<int*>(number); };
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_CUDA_OK(cudaStreamBeginCapture_ptsz(nullptr, cudaStreamCaptureModeThreadLocal));
  EXPECT_CUDA_OK(cudaLaunchHostFunc_ptsz(nullptr, count, &runs));
  ASSERT_CUDA_OK(cudaStreamEndCapture_ptsz(nullptr, &graph));
  ASSERT_CUDA_OK(cudaGraphInstantiate(&executable, graph));
  EXPECT_CUDA_OK(cudaGraphLaunch_ptsz(executable, nullptr));
  EXPECT_CUDA_OK(cudaStreamSynchronize_ptsz(nullptr));
  EXPECT_EQ(runs, 1);
  EXPECT_CUDA_OK(cudaGraphExecDestroy(executable));
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
}

TEST(PerThreadApi, copiesAndFills) {
  unsigned char* device = nullptr;
  unsigned int back = 0;
  ASSERT_CUDA_OK(cudaMalloc(&device, sizeof back));
  EXPECT_CUDA_OK(cudaMemset_ptds(device, 0x5a, sizeof back));
  EXPECT_CUDA_OK(cudaMemcpy_ptds(&back, device, sizeof back, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back, 0x5a5a5a5au);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpy_ptds(&back, nullptr, 1, cudaMemcpyDefault));
  ASSERT_CUDA_OK(cudaFree(device));
  cudaGetLastError();
}

}  // namespace
}  // namespace cinch::cudart
