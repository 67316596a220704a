// Errors, versions, the device, kernels and the marker.

#include <dlfcn.h>

#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

TEST(Error, lastErrorIsKeptUntilItIsTaken) {
  cudaGetLastError();
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaSetDevice(7));
  EXPECT_CUDA_OK(cudaSetDevice(0));  // a success does not clear it
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaPeekAtLastError());
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaGetLastError());
  EXPECT_CUDA_OK(cudaGetLastError());
}

TEST(Error, lastErrorIsPerThread) {
  cudaGetLastError();
  std::thread([] { EXPECT_CUDA(cudaErrorInvalidDevice, cudaSetDevice(7)); }).join();
  EXPECT_CUDA_OK(cudaGetLastError());
}

TEST(Error, everyErrorHasItsOwnNameAndText) {
  std::set<std::string> names, texts;
  size_t nErrors = 0;
#define CINCH_CUDA_ERROR(name, value, text)    \
  EXPECT_STREQ(#name, cudaGetErrorName(name)); \
  names.insert(cudaGetErrorName(name));        \
  texts.insert(cudaGetErrorString(name));      \
  ++nErrors;
#include "emulator/include/cuda_errors.def"
#undef CINCH_CUDA_ERROR
  EXPECT_GT(nErrors, 50u);
  EXPECT_EQ(names.size(), nErrors);
  EXPECT_EQ(texts.size(), nErrors);
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(123456)), "unrecognized error code");
}

TEST(Version, isThirteen) {
  int runtime = 0, driver = 0;
  EXPECT_CUDA_OK(cudaRuntimeGetVersion(&runtime));
  EXPECT_CUDA_OK(cudaDriverGetVersion(&driver));
  EXPECT_EQ(runtime, 13000);
  EXPECT_EQ(driver, 13000);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaRuntimeGetVersion(nullptr));
  cudaGetLastError();
}

TEST(Device, isOne) {
  int count = -1, device = -1;
  EXPECT_CUDA_OK(cudaGetDeviceCount(&count));
  EXPECT_CUDA_OK(cudaGetDevice(&device));
  EXPECT_EQ(count, 1);
  EXPECT_EQ(device, 0);
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaSetDevice(-1));
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaSetDevice(1));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGetDevice(nullptr));
  cudaGetLastError();
}

TEST(Device, saysWhatItIs) {
  cudaDeviceProp properties;
  char busId[32] = "";
  ASSERT_CUDA_OK(cudaGetDeviceProperties(&properties, 0));
  ASSERT_CUDA_OK(cudaDeviceGetPCIBusId(busId, sizeof busId, 0));
  EXPECT_STREQ(properties.name, "Cinch emulator (CPU)");
  EXPECT_STREQ(busId, "0000:00:00.0");
  EXPECT_GT(properties.totalGlobalMem, 0u);
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaGetDeviceProperties(&properties, 1));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGetDeviceProperties(nullptr, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaDeviceGetPCIBusId(busId, 0, 0));
  cudaGetLastError();
}

TEST(Device, attributesAgreeWithProperties) {
  cudaDeviceProp properties;
  int value = -1;
  ASSERT_CUDA_OK(cudaGetDeviceProperties(&properties, 0));
  ASSERT_CUDA_OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
  EXPECT_EQ(value, properties.major);
  ASSERT_CUDA_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  EXPECT_EQ(value, properties.multiProcessorCount);
  ASSERT_CUDA_OK(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(13), 0));
  EXPECT_EQ(value, 0);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaDeviceGetAttribute(&value, cudaDevAttrMax, 0));
  EXPECT_CUDA(cudaErrorInvalidDevice,
              cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 3));
  cudaGetLastError();
}

TEST(Device, resetEndsEverything) {
  bool ran = false;
  auto work = [&] { ran = true; };
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  void* memory = nullptr;
  ASSERT_CUDA_OK(cudaStreamCreate(&stream));
  ASSERT_CUDA_OK(cudaEventCreate(&event));
  ASSERT_CUDA_OK(cudaMalloc(&memory, 100));
  launch(stream, work);
  ASSERT_CUDA_OK(cudaDeviceReset());
  EXPECT_TRUE(ran);
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaStreamQuery(stream));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaEventQuery(event));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFree(memory));
  EXPECT_CUDA_OK(cudaStreamCreate(&stream));  // and a new start is possible
  EXPECT_CUDA_OK(cudaStreamDestroy(stream));
  cudaGetLastError();
}

TEST(Kernel, launchIsANamedError) {
  cudaGetLastError();
  EXPECT_CUDA(cudaErrorNotSupported,
              cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, nullptr));
  EXPECT_CUDA(cudaErrorNotSupported, cudaGetLastError());
  EXPECT_CUDA(cudaErrorNotSupported, cudaLaunchKernelExC(nullptr, nullptr, nullptr));
  EXPECT_CUDA(cudaErrorNotSupported, cudaGetLastError());
}

TEST(Marker, saysWhatThisIs) {
  const auto* marker = static_cast<const char*>(dlsym(RTLD_DEFAULT, "cinchEmulatorMarker"));
  ASSERT_NE(marker, nullptr);
  EXPECT_NE(std::strstr(marker, "emulator"), nullptr);
}

}  // namespace
}  // namespace cinch::cudart
