#include <algorithm>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

class MemoryTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 1000;

  void SetUp() override {
    ASSERT_CUDA_OK(cudaMalloc(&device_, kBytes));
    ASSERT_CUDA_OK(cudaMallocHost(&pinned_, kBytes));
    std::iota(pageable_.begin(), pageable_.end(), uint8_t{1});
  }
  void TearDown() override {
    EXPECT_CUDA_OK(cudaFree(device_));
    EXPECT_CUDA_OK(cudaFreeHost(pinned_));
    cudaGetLastError();
  }

  uint8_t* device_ = nullptr;
  uint8_t* pinned_ = nullptr;
  std::vector<uint8_t> pageable_ = std::vector<uint8_t>(kBytes);
};

TEST_F(MemoryTest, isPageAligned) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(device_) % 4096, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pinned_) % 4096, 0u);
}

TEST_F(MemoryTest, nothingIsNull) {
  void* memory = this;
  EXPECT_CUDA_OK(cudaMalloc(&memory, 0));
  EXPECT_EQ(memory, nullptr);
  memory = this;
  EXPECT_CUDA_OK(cudaMallocHost(&memory, 0));
  EXPECT_EQ(memory, nullptr);
  EXPECT_CUDA_OK(cudaFree(nullptr));
  EXPECT_CUDA_OK(cudaFreeHost(nullptr));
  EXPECT_CUDA_OK(cudaFreeAsync(nullptr, nullptr));
}

TEST_F(MemoryTest, anAbsurdSizeIsRefused) {
  for (const size_t nBytes : {SIZE_MAX, SIZE_MAX / 2, size_t{1} << 48}) {
    void* memory = this;
    EXPECT_CUDA(cudaErrorMemoryAllocation, cudaMalloc(&memory, nBytes));
    EXPECT_CUDA(cudaErrorMemoryAllocation, cudaMallocHost(&memory, nBytes));
    EXPECT_CUDA(cudaErrorMemoryAllocation, cudaMallocAsync(&memory, nBytes, nullptr));
  }
  EXPECT_CUDA(cudaErrorMemoryAllocation, cudaGetLastError());
  void* memory = nullptr;
  EXPECT_CUDA_OK(cudaMalloc(&memory, 1));  // and does no harm
  EXPECT_CUDA_OK(cudaFree(memory));
}

TEST_F(MemoryTest, wrongFreesAreErrors) {
  int onStack = 0;
  void* freed = nullptr;
  ASSERT_CUDA_OK(cudaMalloc(&freed, 16));
  ASSERT_CUDA_OK(cudaFree(freed));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFree(freed));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFree(&onStack));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFree(device_ + 1));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFree(pinned_));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFreeHost(device_));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFreeAsync(pinned_, nullptr));
}

TEST_F(MemoryTest, whatIsAllocatedCounts) {
  size_t before = 0, during = 0, after = 0, total = 0;
  void* memory = nullptr;
  ASSERT_CUDA_OK(cudaMemGetInfo(&before, &total));
  ASSERT_CUDA_OK(cudaMalloc(&memory, 1 << 20));
  ASSERT_CUDA_OK(cudaMemGetInfo(&during, &total));
  ASSERT_CUDA_OK(cudaFree(memory));
  ASSERT_CUDA_OK(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(before - during, size_t{1} << 20);
  EXPECT_EQ(after, before);
  EXPECT_LE(before, total);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemGetInfo(nullptr, &total));
}

TEST_F(MemoryTest, copiesThereAndBack) {
  std::vector<uint8_t> back(kBytes);
  ASSERT_CUDA_OK(cudaMemcpy(device_, pageable_.data(), kBytes, cudaMemcpyHostToDevice));
  ASSERT_CUDA_OK(cudaMemcpy(pinned_, device_, kBytes, cudaMemcpyDeviceToHost));
  ASSERT_CUDA_OK(cudaMemcpy(back.data(), pinned_, kBytes, cudaMemcpyHostToHost));
  EXPECT_EQ(back, pageable_);
}

TEST_F(MemoryTest, streamCopiesAndFillsInOrder) {
  TestStream stream;
  std::vector<uint8_t> back(kBytes);
  ASSERT_CUDA_OK(cudaMemcpyAsync(device_, pageable_.data(), kBytes, cudaMemcpyDefault, stream));
  ASSERT_CUDA_OK(cudaMemsetAsync(device_ + 10, 0xab, 20, stream));
  ASSERT_CUDA_OK(cudaMemcpyAsync(back.data(), device_, kBytes, cudaMemcpyDefault, stream));
  ASSERT_CUDA_OK(cudaMemsetAsync(device_, 0, kBytes, stream));
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  std::vector<uint8_t> expected = pageable_;
  std::fill_n(expected.begin() + 10, 20, uint8_t{0xab});
  EXPECT_EQ(back, expected);
  EXPECT_EQ(std::count(device_, device_ + kBytes, 0), std::ptrdiff_t{kBytes});
}

TEST_F(MemoryTest, asynchronousCopyReadsWhenItRuns) {
  Gate gate;
  TestStream stream;
  gate.block(stream);
  EXPECT_CUDA_OK(cudaMemcpyAsync(device_, pageable_.data(), 1, cudaMemcpyHostToDevice, stream));
  pageable_[0] = 99;
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(device_[0], 99);
}

TEST_F(MemoryTest, deviceToDeviceCopyDoesNotWait) {
  Gate gate;
  uint8_t* other = nullptr;
  ASSERT_CUDA_OK(cudaMalloc(&other, kBytes));
  ASSERT_CUDA_OK(cudaMemset(other, 5, kBytes));
  gate.block(nullptr);
  EXPECT_CUDA_OK(cudaMemcpy(device_, other, kBytes, cudaMemcpyDeviceToDevice));
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(std::count(device_, device_ + kBytes, 5), std::ptrdiff_t{kBytes});
  ASSERT_CUDA_OK(cudaFree(other));
}

TEST_F(MemoryTest, copiesThatAGpuWouldRefuseAreErrors) {
  uint8_t* const host = pageable_.data();
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpy(host, host, 1, cudaMemcpyHostToDevice));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpy(host, host, 1, cudaMemcpyDeviceToHost));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpy(device_, host, 1, cudaMemcpyDeviceToDevice));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpy(nullptr, host, 1, cudaMemcpyDefault));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpy(device_, nullptr, 1, cudaMemcpyDefault));
  EXPECT_CUDA(cudaErrorInvalidMemcpyDirection,
              cudaMemcpy(device_, host, 1, static_cast<cudaMemcpyKind>(5)));
  EXPECT_CUDA(cudaErrorInvalidValue,
              cudaMemcpyAsync(device_ + 1, host, kBytes, cudaMemcpyHostToDevice));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpy(host, device_, SIZE_MAX, cudaMemcpyDefault));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemset(host, 0, 1));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemset(device_ + 1, 0, kBytes));
  EXPECT_CUDA_OK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault));
  EXPECT_CUDA_OK(cudaMemset(nullptr, 0, 0));
  EXPECT_CUDA_OK(cudaMemset(pinned_, 0, kBytes));  // the device can reach it
}

TEST_F(MemoryTest, pointersKnowWhatTheyAre) {
  cudaPointerAttributes seen;
  EXPECT_CUDA_OK(cudaPointerGetAttributes(&seen, device_ + kBytes - 1));
  EXPECT_EQ(seen.type, cudaMemoryTypeDevice);
  EXPECT_EQ(seen.device, 0);
  EXPECT_EQ(seen.devicePointer, device_ + kBytes - 1);
  EXPECT_EQ(seen.hostPointer, nullptr);
  EXPECT_CUDA_OK(cudaPointerGetAttributes(&seen, pinned_));
  EXPECT_EQ(seen.type, cudaMemoryTypeHost);
  EXPECT_EQ(seen.devicePointer, pinned_);
  EXPECT_EQ(seen.hostPointer, pinned_);
  EXPECT_CUDA_OK(cudaPointerGetAttributes(&seen, &seen));
  EXPECT_EQ(seen.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(seen.devicePointer, nullptr);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaPointerGetAttributes(nullptr, &seen));
}

TEST_F(MemoryTest, pinnedMemoryIsMappedAtItsOwnAddress) {
  uint8_t* mapped = nullptr;
  EXPECT_CUDA_OK(cudaHostGetDevicePointer(&mapped, pinned_, 0));
  EXPECT_EQ(mapped, pinned_);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaHostGetDevicePointer(&mapped, pageable_.data(), 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaHostAlloc(&mapped, 1, 8));
}

TEST_F(MemoryTest, freeWaitsForWorkThatUsesTheMemory) {
  uint8_t* doomed = nullptr;
  bool ran = false;
  ASSERT_CUDA_OK(cudaMalloc(&doomed, kBytes));
  auto work = [&] {
    std::fill_n(doomed, kBytes, uint8_t{1});
    ran = true;
  };
  TestStream stream;
  launch(stream, work);
  ASSERT_CUDA_OK(cudaFree(doomed));
  EXPECT_TRUE(ran);
}

TEST_F(MemoryTest, asynchronousFreeWaitsForItsTurn) {
  Gate gate;
  void* memory = nullptr;
  cudaPointerAttributes seen;
  TestStream stream;
  ASSERT_CUDA_OK(cudaMallocAsync(&memory, kBytes, stream));
  gate.block(stream);
  EXPECT_CUDA_OK(cudaMemsetAsync(memory, 1, kBytes, stream));
  EXPECT_CUDA_OK(cudaFreeAsync(memory, stream));
  EXPECT_CUDA_OK(cudaPointerGetAttributes(&seen, memory));
  EXPECT_EQ(seen.type, cudaMemoryTypeDevice);
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFree(memory));
}

TEST_F(MemoryTest, threadsAllocateAndFree) {
  size_t before = 0, after = 0, total = 0;
  ASSERT_CUDA_OK(cudaMemGetInfo(&before, &total));
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([t] {
      for (size_t i = 1; i <= 200; ++i) {
        uint8_t* memory = nullptr;
        EXPECT_CUDA_OK(cudaMalloc(&memory, i * 37));
        EXPECT_CUDA_OK(cudaMemset(memory, t, i * 37));
        EXPECT_CUDA_OK(cudaFree(memory));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_CUDA_OK(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace cinch::cudart
