#include "emulator/cudart/pool.h"

#include <cstdint>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

class PoolTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CUDA_OK(cudaDeviceReset());
    ASSERT_CUDA_OK(cudaDeviceGetDefaultMemPool(&pool_, 0));
  }
  void TearDown() override { cudaGetLastError(); }

  uint64_t bytes(cudaMemPoolAttr attribute) const {
    uint64_t value = 99;
    EXPECT_CUDA_OK(cudaMemPoolGetAttribute(pool_, attribute, &value));
    return value;
  }
  cudaError_t set(cudaMemPoolAttr attribute, uint64_t value) const {
    return cudaMemPoolSetAttribute(pool_, attribute, &value);
  }

  cudaMemPool_t pool_ = nullptr;
};

TEST_F(PoolTest, isTheSameEachTime) {
  cudaMemPool_t again = nullptr;
  ASSERT_CUDA_OK(cudaDeviceGetDefaultMemPool(&again, 0));
  EXPECT_EQ(again, pool_);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaDeviceGetDefaultMemPool(nullptr, 0));
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaDeviceGetDefaultMemPool(&again, 1));
}

TEST_F(PoolTest, keepsItsSettings) {
  EXPECT_EQ(bytes(cudaMemPoolAttrReleaseThreshold), 0u);
  ASSERT_CUDA_OK(set(cudaMemPoolAttrReleaseThreshold, UINT64_MAX));
  EXPECT_EQ(bytes(cudaMemPoolAttrReleaseThreshold), UINT64_MAX);
  for (int i = cudaMemPoolReuseFollowEventDependencies;
       i <= cudaMemPoolReuseAllowInternalDependencies; ++i) {
    const auto attribute = static_cast<cudaMemPoolAttr>(i);
    int value[2] = {-1, 55};  // an int: nothing behind it may be touched
    ASSERT_CUDA_OK(cudaMemPoolGetAttribute(pool_, attribute, value));
    EXPECT_EQ(value[0], 1);
    value[0] = 0;
    ASSERT_CUDA_OK(cudaMemPoolSetAttribute(pool_, attribute, value));
    value[0] = -1;
    ASSERT_CUDA_OK(cudaMemPoolGetAttribute(pool_, attribute, value));
    EXPECT_EQ(value[0], 0);
    EXPECT_EQ(value[1], 55);
  }
}

TEST_F(PoolTest, countsWhatIsTakenFromIt) {
  TestStream stream;
  void *first = nullptr, *second = nullptr, *other = nullptr;
  ASSERT_CUDA_OK(cudaMallocAsync(&first, 1000, stream));
  ASSERT_CUDA_OK(cudaMallocAsync(&second, 500, stream));
  ASSERT_CUDA_OK(cudaMalloc(&other, 4000));  // not of the pool
  EXPECT_EQ(bytes(cudaMemPoolAttrUsedMemCurrent), 1500u);
  EXPECT_EQ(bytes(cudaMemPoolAttrReservedMemCurrent), 1500u);
  ASSERT_CUDA_OK(cudaFreeAsync(first, stream));
  ASSERT_CUDA_OK(cudaFreeAsync(other, stream));
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  ASSERT_CUDA_OK(cudaFree(second));  // CUDA allows it
  EXPECT_EQ(bytes(cudaMemPoolAttrUsedMemCurrent), 0u);
  EXPECT_EQ(bytes(cudaMemPoolAttrUsedMemHigh), 1500u);
  EXPECT_EQ(bytes(cudaMemPoolAttrReservedMemHigh), 1500u);
  EXPECT_CUDA_OK(cudaMemPoolTrimTo(pool_, 0));
}

TEST_F(PoolTest, highMarksBeginAgain) {
  TestStream stream;
  void *kept = nullptr, *freed = nullptr;
  ASSERT_CUDA_OK(cudaMallocAsync(&kept, 100, stream));
  ASSERT_CUDA_OK(cudaMallocAsync(&freed, 900, stream));
  ASSERT_CUDA_OK(cudaFreeAsync(freed, stream));
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  for (const auto mark : {cudaMemPoolAttrUsedMemHigh, cudaMemPoolAttrReservedMemHigh}) {
    EXPECT_CUDA(cudaErrorInvalidValue, set(mark, 1));
    EXPECT_EQ(bytes(mark), 1000u);
    EXPECT_CUDA_OK(set(mark, 0));
    EXPECT_EQ(bytes(mark), 100u);
  }
  ASSERT_CUDA_OK(cudaFreeAsync(kept, stream));
}

TEST_F(PoolTest, wrongQuestionsAreErrors) {
  uint64_t value = 0;
  cudaMemPool_t none = reinterpret_cast<cudaMemPool_t>(&value);
  for (cudaMemPool_t pool : {cudaMemPool_t{}, none}) {
    EXPECT_CUDA(cudaErrorInvalidValue,
                cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
    EXPECT_CUDA(cudaErrorInvalidValue,
                cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
    EXPECT_CUDA(cudaErrorInvalidValue, cudaMemPoolTrimTo(pool, 0));
    EXPECT_CUDA(cudaErrorInvalidValue, cudaMemPoolSetAccess(pool, nullptr, 0));
  }
  for (const int attribute : {0, 9, 15}) {
    const auto unknown = static_cast<cudaMemPoolAttr>(attribute);
    EXPECT_CUDA(cudaErrorInvalidValue, cudaMemPoolGetAttribute(pool_, unknown, &value));
    EXPECT_CUDA(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool_, unknown, &value));
  }
  EXPECT_CUDA(cudaErrorInvalidValue, set(cudaMemPoolAttrUsedMemCurrent, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, set(cudaMemPoolAttrReservedMemCurrent, 0));
  EXPECT_CUDA(cudaErrorInvalidValue,
              cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, nullptr));
}

TEST_F(PoolTest, graphsHaveNoMemory) {
  for (int i = cudaGraphMemAttrUsedMemCurrent; i <= cudaGraphMemAttrReservedMemHigh; ++i) {
    const auto attribute = static_cast<cudaGraphMemAttributeType>(i);
    uint64_t value = 99;
    EXPECT_CUDA_OK(cudaDeviceGetGraphMemAttribute(0, attribute, &value));
    EXPECT_EQ(value, 0u);
    const bool isMark = i % 2 == 1;
    EXPECT_CUDA(isMark ? cudaSuccess : cudaErrorInvalidValue,
                cudaDeviceSetGraphMemAttribute(0, attribute, &value));
    value = 1;
    EXPECT_CUDA(cudaErrorInvalidValue, cudaDeviceSetGraphMemAttribute(0, attribute, &value));
    EXPECT_CUDA(cudaErrorInvalidDevice, cudaDeviceGetGraphMemAttribute(1, attribute, &value));
    EXPECT_CUDA(cudaErrorInvalidValue, cudaDeviceGetGraphMemAttribute(0, attribute, nullptr));
  }
}

}  // namespace
}  // namespace cinch::cudart
