#include <cuda.h>

#include <vector>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::driver {
namespace {

class PointerTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CUDA_OK(cudaSetDevice(1));
    ASSERT_CUDA_OK(cudaMalloc(&device_, 100));
    ASSERT_CUDA_OK(cudaMallocHost(&pinned_, 100));
  }
  void TearDown() override {
    EXPECT_CUDA_OK(cudaFree(device_));
    EXPECT_CUDA_OK(cudaFreeHost(pinned_));
  }

  static CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

  template <class T>
  static T get(CUpointer_attribute attribute, const void* pointer) {
    T value{};
    EXPECT_EQ(cuPointerGetAttribute(&value, attribute, address(pointer)), CUDA_SUCCESS);
    return value;
  }

  char* device_ = nullptr;
  char* pinned_ = nullptr;
};

TEST_F(PointerTest, knowWhatTheyAre) {
  EXPECT_EQ(get<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device_ + 99), CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(get<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned_), CU_MEMORYTYPE_HOST);
  EXPECT_EQ(get<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, device_), 1);
  EXPECT_EQ(get<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, device_), 0u);
  EXPECT_EQ(get<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pinned_ + 7),
            address(pinned_ + 7));
  EXPECT_EQ(get<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, device_ + 7), address(device_));
  EXPECT_EQ(get<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, device_ + 7), 100u);
  CUcontext context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
  EXPECT_EQ(get<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, device_), context);
}

TEST_F(PointerTest, managedOnesSaySo) {
  void* managed = nullptr;
  ASSERT_CUDA_OK(cudaMallocManaged(&managed, 10));
  EXPECT_EQ(get<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed), 1u);
  EXPECT_EQ(get<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, managed), managed);
  EXPECT_CUDA_OK(cudaFree(managed));
}

TEST_F(PointerTest, rangesAreFound) {
  CUdeviceptr base = 0;
  size_t nBytes = 0;
  EXPECT_EQ(cuMemGetAddressRange(&base, &nBytes, address(device_ + 50)), CUDA_SUCCESS);
  EXPECT_EQ(base, address(device_));
  EXPECT_EQ(nBytes, 100u);
  EXPECT_EQ(cuMemGetAddressRange(nullptr, nullptr, address(device_)), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAddressRange(&base, &nBytes, address(&base)), CUDA_ERROR_NOT_FOUND);
}

TEST_F(PointerTest, wrongQuestionsAreErrors) {
  cudaGetLastError();
  unsigned value = 0;
  EXPECT_EQ(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(&value)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(device_)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_HOST_POINTER, address(device_)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_BUFFER_ID, address(device_)),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_CUDA_OK(cudaGetLastError());
}

}  // namespace
}  // namespace cinch::driver
