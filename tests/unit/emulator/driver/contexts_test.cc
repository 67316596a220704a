#include <cuda.h>

#include <atomic>
#include <thread>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::driver {
namespace {

bool isActive(int device) {
  unsigned int flags = 99;
  int active = -1;
  EXPECT_EQ(cuDevicePrimaryCtxGetState(device, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(flags, 0u);
  return active == 1;
}

CUcontext current() {
  CUcontext context = reinterpret_cast<CUcontext>(&context);
  EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  return context;
}

CUcontext retain(int device) {
  CUcontext context = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
  return context;
}

int currentDevice() {
  int device = -1;
  EXPECT_CUDA_OK(cudaGetDevice(&device));
  return device;
}

class ContextTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CUDA_OK(cudaSetDevice(0));
    ASSERT_CUDA_OK(cudaDeviceReset());
  }
};

TEST_F(ContextTest, isActiveFromTheFirstUseOfItsDevice) {
  EXPECT_FALSE(isActive(0));
  EXPECT_EQ(current(), nullptr);
  int count = 0;
  EXPECT_CUDA_OK(cudaGetDeviceCount(&count));
  EXPECT_EQ(currentDevice(), 0);
  EXPECT_FALSE(isActive(0)) << "a question makes no context";
  void* memory = nullptr;
  ASSERT_CUDA_OK(cudaMalloc(&memory, 1));
  EXPECT_TRUE(isActive(0));
  EXPECT_FALSE(isActive(1));
  EXPECT_NE(current(), nullptr);
  ASSERT_CUDA_OK(cudaSetDevice(1));
  EXPECT_TRUE(isActive(1));
  ASSERT_CUDA_OK(cudaDeviceReset());
  EXPECT_FALSE(isActive(0));
  EXPECT_FALSE(isActive(1));
}

TEST_F(ContextTest, programsMakeADeviceReadyByFreeingNothing) {
  ASSERT_CUDA_OK(cudaFree(nullptr));
  EXPECT_TRUE(isActive(0));
}

TEST_F(ContextTest, isRetainedWithoutBeingCurrent) {
  const CUcontext second = retain(1);
  EXPECT_TRUE(isActive(1));
  EXPECT_EQ(current(), nullptr);
  EXPECT_EQ(retain(1), second);
  EXPECT_NE(retain(0), second);
  EXPECT_EQ(currentDevice(), 0);
}

TEST_F(ContextTest, settingItIsChoosingTheDevice) {
  ASSERT_EQ(cuCtxSetCurrent(retain(1)), CUDA_SUCCESS);
  EXPECT_EQ(currentDevice(), 1);
  ASSERT_CUDA_OK(cudaSetDevice(0));
  EXPECT_EQ(current(), retain(0));
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(current(), nullptr);
  ASSERT_CUDA_OK(cudaFree(nullptr));  // the next use takes one again
  EXPECT_EQ(current(), retain(0));
}

TEST_F(ContextTest, isTheThreads) {
  ASSERT_CUDA_OK(cudaSetDevice(1));
  std::thread([] {
    EXPECT_EQ(current(), nullptr);
    EXPECT_EQ(cuCtxSetCurrent(retain(0)), CUDA_SUCCESS);
    EXPECT_EQ(current(), retain(0));
  }).join();
  EXPECT_EQ(current(), retain(1));
}

TEST_F(ContextTest, isPushedAndPopped) {
  CUcontext popped = nullptr;
  ASSERT_CUDA_OK(cudaSetDevice(0));
  ASSERT_EQ(cuCtxPushCurrent(retain(1)), CUDA_SUCCESS);
  EXPECT_EQ(currentDevice(), 1);
  ASSERT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, retain(1));
  EXPECT_EQ(currentDevice(), 0);
  ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(current(), nullptr);
  EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextTest, wrongOnesAreErrors) {
  int active = 0;
  unsigned int flags = 0;
  CUcontext context = nullptr;
  const CUcontext foreign = reinterpret_cast<CUcontext>(&active);
  EXPECT_EQ(cuCtxSetCurrent(foreign), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxPushCurrent(foreign), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxPushCurrent(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxGetCurrent(nullptr), CUDA_ERROR_INVALID_VALUE);
  for (const int device : {-1, 2, 64}) {
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuDevicePrimaryCtxGetState(device, &flags, &active), CUDA_ERROR_INVALID_DEVICE);
  }
  EXPECT_EQ(cuDevicePrimaryCtxRetain(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, nullptr, &active), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace cinch::driver
