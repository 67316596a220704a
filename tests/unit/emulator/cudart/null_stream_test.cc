// The legacy rules of the null stream, and the per-thread default stream.

#include <atomic>
#include <latch>
#include <thread>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

TEST(NullStream, waitsForBlockingStreams) {
  Gate gate;
  std::atomic<bool> ran{false};
  auto work = [&] { ran = true; };
  TestStream blocking(cudaStreamDefault);
  gate.block(blocking);
  launch(nullptr, work);
  EXPECT_CUDA(cudaErrorNotReady, cudaStreamQuery(nullptr));
  EXPECT_FALSE(ran);
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(nullptr));
  EXPECT_TRUE(ran);
  cudaGetLastError();
}

TEST(NullStream, blockingStreamsWaitForIt) {
  Gate gate;
  std::atomic<bool> ran{false};
  auto work = [&] { ran = true; };
  TestStream blocking(cudaStreamDefault);
  gate.block(cudaStreamLegacy);
  launch(blocking, work);
  TestEvent event;
  ASSERT_CUDA_OK(cudaEventRecord(event, blocking));
  EXPECT_CUDA(cudaErrorNotReady, cudaEventQuery(event));
  EXPECT_FALSE(ran);
  gate.open();
  ASSERT_CUDA_OK(cudaEventSynchronize(event));
  EXPECT_TRUE(ran);
  cudaGetLastError();
}

TEST(NullStream, nonBlockingStreamsAreNotOrderedWithIt) {
  std::latch both(3);
  auto meet = [&] { both.arrive_and_wait(); };
  TestStream before, after;
  launch(before, meet);
  launch(nullptr, meet);
  launch(after, meet);  // all three meet only if none waits for another
  ASSERT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_TRUE(both.try_wait());
}

TEST(NullStream, ordersBlockingStreamsWithEachOther) {
  Gate gate;
  int order = 0, first = 0, middle = 0, last = 0;
  auto one = [&] { first = ++order; };
  auto two = [&] { middle = ++order; };
  auto three = [&] { last = ++order; };
  TestStream a(cudaStreamDefault), b(cudaStreamDefault);
  gate.block(a);
  launch(a, one);
  launch(nullptr, two);
  launch(b, three);
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(b));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(middle, 2);
  EXPECT_EQ(last, 3);
}

TEST(NullStream, eventOnItCoversBlockingStreams) {
  Gate gate;
  TestStream blocking(cudaStreamDefault);
  TestEvent event;
  gate.block(blocking);
  ASSERT_CUDA_OK(cudaEventRecord(event, nullptr));
  EXPECT_CUDA(cudaErrorNotReady, cudaEventQuery(event));
  gate.open();
  ASSERT_CUDA_OK(cudaEventSynchronize(event));
  EXPECT_CUDA_OK(cudaStreamQuery(blocking));
  cudaGetLastError();
}

TEST(NullStream, waitsForDestroyedStreamsToo) {
  Gate gate;
  std::atomic<bool> ran{false};
  auto work = [&] { ran = true; };
  cudaStream_t stream = nullptr;
  ASSERT_CUDA_OK(cudaStreamCreate(&stream));
  gate.block(stream);
  launch(stream, work);
  ASSERT_CUDA_OK(cudaStreamDestroy(stream));
  EXPECT_CUDA(cudaErrorNotReady, cudaStreamQuery(nullptr));
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(nullptr));
  EXPECT_TRUE(ran);
  cudaGetLastError();
}

TEST(NullStream, memcpyWaitsForBlockingStreams) {
  int value = 0, copied = 0;
  int* device = nullptr;
  ASSERT_CUDA_OK(cudaMalloc(&device, sizeof value));
  auto work = [&] { value = 7; };
  TestStream blocking(cudaStreamDefault);
  for (int round = 0; round < 200; ++round) {
    value = 0;
    launch(blocking, work);
    ASSERT_CUDA_OK(cudaMemcpyAsync(device, &value, sizeof value, cudaMemcpyHostToDevice, blocking));
    ASSERT_CUDA_OK(cudaMemcpy(&copied, device, sizeof value, cudaMemcpyDeviceToHost));
    ASSERT_EQ(copied, 7);
    ASSERT_CUDA_OK(cudaMemset(device, 0, sizeof value));
  }
  ASSERT_CUDA_OK(cudaFree(device));
}

TEST(PerThreadStream, isEachThreadsOwn) {
  std::latch both(2);
  auto meet = [&] { both.arrive_and_wait(); };
  launch(cudaStreamPerThread, meet);
  std::thread([&] {
    launch(cudaStreamPerThread, meet);
    EXPECT_CUDA_OK(cudaStreamSynchronize(cudaStreamPerThread));
  }).join();
  ASSERT_CUDA_OK(cudaStreamSynchronize(cudaStreamPerThread));
  EXPECT_TRUE(both.try_wait());
}

TEST(PerThreadStream, isOrderedWithTheNullStream) {
  Gate gate;
  gate.block(cudaStreamPerThread);
  EXPECT_CUDA(cudaErrorNotReady, cudaStreamQuery(nullptr));
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(nullptr));
  EXPECT_CUDA_OK(cudaStreamQuery(cudaStreamPerThread));
  cudaGetLastError();
}

}  // namespace
}  // namespace cinch::cudart
