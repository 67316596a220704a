// Copies of rows; the others are in memory_test.cc.
#include <cstdint>
#include <vector>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

class RowCopyTest : public testing::Test {
 protected:
  static constexpr size_t kPitch = 10, kWidth = 4, kHeight = 3;
  static constexpr size_t kSpan = (kHeight - 1) * kPitch + kWidth;

  void SetUp() override {
    ASSERT_CUDA_OK(cudaMalloc(&device_, kSpan));
    ASSERT_CUDA_OK(cudaMemset(device_, 0, kSpan));
    ASSERT_CUDA_OK(cudaStreamSynchronize(nullptr));
  }
  void TearDown() override {
    EXPECT_CUDA_OK(cudaFree(device_));
    cudaGetLastError();
  }

  cudaError_t toDevice(size_t pitch, size_t width, size_t height) {
    return cudaMemcpy2DAsync(device_, pitch, rows_.data(), kWidth, width, height,
                             cudaMemcpyHostToDevice, nullptr);
  }

  uint8_t* device_ = nullptr;
  std::vector<uint8_t> rows_ = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
};

TEST_F(RowCopyTest, leavesAloneWhatLiesBetweenRows) {
  ASSERT_CUDA_OK(toDevice(kPitch, kWidth, kHeight));
  ASSERT_CUDA_OK(cudaStreamSynchronize(nullptr));
  for (size_t i = 0; i < kSpan; ++i) {
    const size_t row = i / kPitch, column = i % kPitch;
    EXPECT_EQ(device_[i], column < kWidth ? rows_[row * kWidth + column] : 0) << i;
  }
  std::vector<uint8_t> back(rows_.size());
  ASSERT_CUDA_OK(cudaMemcpy2DAsync(back.data(), kWidth, device_, kPitch, kWidth, kHeight,
                                   cudaMemcpyDefault, nullptr));
  ASSERT_CUDA_OK(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(back, rows_);
}

TEST_F(RowCopyTest, nothingIsAllowed) {
  EXPECT_CUDA_OK(cudaMemcpy2DAsync(nullptr, 0, nullptr, 0, 0, 5, cudaMemcpyDefault, nullptr));
  EXPECT_CUDA_OK(cudaMemcpy2DAsync(nullptr, 5, nullptr, 5, 5, 0, cudaMemcpyDefault, nullptr));
}

TEST_F(RowCopyTest, wrongShapesAreErrors) {
  EXPECT_CUDA(cudaErrorInvalidPitchValue, toDevice(kWidth - 1, kWidth, kHeight));
  EXPECT_CUDA(cudaErrorInvalidPitchValue, toDevice(kPitch, kWidth + 1, kHeight));
  EXPECT_CUDA(cudaErrorInvalidValue, toDevice(kPitch, kWidth, kHeight + 1));
  EXPECT_CUDA(cudaErrorInvalidValue, toDevice(SIZE_MAX / 2, kWidth, kHeight));
  EXPECT_CUDA(cudaErrorInvalidValue, toDevice(kPitch, kWidth, SIZE_MAX));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpy2DAsync(device_, kPitch, nullptr, kWidth, kWidth,
                                                       kHeight, cudaMemcpyDefault, nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue,
              cudaMemcpy2DAsync(rows_.data(), kWidth, device_, kPitch, kWidth, kHeight,
                                cudaMemcpyDeviceToDevice, nullptr));
  EXPECT_CUDA(cudaErrorInvalidMemcpyDirection,
              cudaMemcpy2DAsync(device_, kPitch, rows_.data(), kWidth, kWidth, kHeight,
                                static_cast<cudaMemcpyKind>(5), nullptr));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle,
              cudaMemcpy2DAsync(device_, kPitch, rows_.data(), kWidth, kWidth, kHeight,
                                cudaMemcpyDefault, reinterpret_cast<cudaStream_t>(device_)));
}

TEST_F(RowCopyTest, isCaptured) {
  TestStream stream;
  TestGraph graph(stream, [&] {
    EXPECT_CUDA_OK(cudaMemcpy2DAsync(device_, kPitch, rows_.data(), kWidth, kWidth, kHeight,
                                     cudaMemcpyHostToDevice, stream));
  });
  EXPECT_EQ(device_[0], 0) << "it ran while it was captured";
  for (const uint8_t value : {uint8_t{21}, uint8_t{22}}) {
    rows_.back() = value;
    ASSERT_CUDA_OK(cudaGraphLaunch(graph, stream));
    ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(device_[kSpan - 1], value);
  }
}

}  // namespace
}  // namespace cinch::cudart
