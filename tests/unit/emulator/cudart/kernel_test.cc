// What programs ask about kernels, and what cannot be on a CPU.
#include <cuda_profiler_api.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

const int kernel = 0;  // kernels are known by an address

int blocks(int blockSize, size_t sharedBytes) {
  int nBlocks = -1;
  EXPECT_CUDA_OK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&nBlocks, &kernel, blockSize, sharedBytes));
  return nBlocks;
}

TEST(Occupancy, isOfThreadsSharedMemoryAndBlocks) {
  EXPECT_EQ(blocks(1024, 0), 2);
  EXPECT_EQ(blocks(256, 0), 8);
  EXPECT_EQ(blocks(32, 0), 32) << "no more blocks than a multiprocessor has room for";
  EXPECT_EQ(blocks(256, 100 << 10), 2);
  EXPECT_EQ(blocks(256, 227 << 10), 1);
  EXPECT_EQ(blocks(256, 228 << 10), 0);
  EXPECT_EQ(blocks(256, SIZE_MAX), 0);
  EXPECT_EQ(blocks(1025, 0), 0);
}

TEST(Occupancy, wrongQuestionsAreErrors) {
  int nBlocks = 0;
  EXPECT_CUDA(cudaErrorInvalidValue,
              cudaOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, &kernel, 32, 0));
  EXPECT_CUDA(cudaErrorInvalidValue,
              cudaOccupancyMaxActiveBlocksPerMultiprocessor(&nBlocks, &kernel, 0, 0));
  EXPECT_CUDA(cudaErrorInvalidDeviceFunction,
              cudaOccupancyMaxActiveBlocksPerMultiprocessor(&nBlocks, nullptr, 32, 0));
  EXPECT_CUDA_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      &nBlocks, &kernel, 32, 0, cudaOccupancyDisableCachingOverride));
  EXPECT_CUDA(cudaErrorInvalidValue,
              cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&nBlocks, &kernel, 32, 0, 2));
  cudaGetLastError();
}

// Whether asking for the kernel's attributes returns while the device has work that does not end.
bool loadsBesideWork(const void* which, std::chrono::milliseconds patience) {
  Gate gate;
  const TestStream stream;
  gate.block(stream);
  std::atomic<bool> isLoaded = false;
  std::thread asking([&] {
    cudaFuncAttributes attributes;
    EXPECT_CUDA_OK(cudaFuncGetAttributes(&attributes, which));
    isLoaded = true;
  });
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!isLoaded && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const bool hasReturned = isLoaded;
  gate.open();
  asking.join();
  return hasReturned;
}

TEST(KernelLoading, waitsForTheDeviceOnceWhereItIsLazy) {
  static const char first = 0, second = 0;
  constexpr std::chrono::milliseconds kMoment{100}, kAnyTime{60'000};
  EXPECT_FALSE(loadsBesideWork(&first, kMoment));
  EXPECT_TRUE(loadsBesideWork(&first, kAnyTime)) << "it is loaded by now";
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  EXPECT_TRUE(loadsBesideWork(&second, kAnyTime));
  unsetenv("CUDA_MODULE_LOADING");
}

TEST(KernelLoading, needsMachineCode) {
  static const char unknown = 0;
  setenv("CINCH_EMULATOR_CAPABILITY", "7.0", 1);
  cudaFuncAttributes attributes;
  EXPECT_CUDA(cudaErrorNoKernelImageForDevice, cudaFuncGetAttributes(&attributes, &unknown));
  unsetenv("CINCH_EMULATOR_CAPABILITY");
  cudaGetLastError();
}

TEST(KernelAttributes, areThoseOfASmallOne) {
  cudaFuncAttributes attributes;
  ASSERT_CUDA_OK(cudaFuncGetAttributes(&attributes, &kernel));
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
  EXPECT_GT(attributes.numRegs, 0);
  EXPECT_EQ(attributes.binaryVersion, 90);
  EXPECT_CUDA(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&attributes, nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFuncGetAttributes(nullptr, &kernel));
  const auto set = [](int attribute, int value) {
    return cudaFuncSetAttribute(&kernel, static_cast<cudaFuncAttribute>(attribute), value);
  };
  EXPECT_CUDA_OK(set(cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10));
  EXPECT_CUDA_OK(set(cudaFuncAttributePreferredSharedMemoryCarveout, -1));
  EXPECT_CUDA(cudaErrorInvalidValue, set(cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10));
  EXPECT_CUDA(cudaErrorInvalidValue, set(cudaFuncAttributeMaxDynamicSharedMemorySize, -1));
  EXPECT_CUDA(cudaErrorInvalidValue, set(7, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, set(cudaFuncAttributeMax, 0));
  cudaGetLastError();
}

TEST(NotOnACpu, isANamedError) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t loaded = nullptr;
  cudaIpcMemHandle_t memoryHandle;
  cudaIpcEventHandle_t eventHandle;
  cudaEvent_t event = nullptr;
  void* memory = nullptr;
  size_t nBytes = 0;
  unsigned int count = 0;
  for (const cudaError_t error : {
           cudaLibraryLoadData(&library, "", nullptr, nullptr, 0, nullptr, nullptr, 0),
           cudaLibraryLoadFromFile(&library, "", nullptr, nullptr, 0, nullptr, nullptr, 0),
           cudaLibraryUnload(library),
           cudaLibraryGetKernel(&loaded, library, ""),
           cudaLibraryGetKernelCount(&count, library),
           cudaLibraryGetGlobal(&memory, &nBytes, library, ""),
           cudaLibraryGetManaged(&memory, &nBytes, library, ""),
           cudaLibraryGetUnifiedFunction(&memory, library, ""),
           cudaKernelSetAttributeForDevice(loaded, cudaFuncAttributeMax, 0, 0),
           cudaLaunchCooperativeKernel(&kernel, dim3(1), dim3(1), nullptr, 0, nullptr),
           cudaIpcGetMemHandle(&memoryHandle, memory),
           cudaIpcOpenMemHandle(&memory, memoryHandle, cudaIpcMemLazyEnablePeerAccess),
           cudaIpcCloseMemHandle(memory),
           cudaIpcGetEventHandle(&eventHandle, event),
           cudaIpcOpenEventHandle(&event, eventHandle),
       })
    EXPECT_CUDA(cudaErrorNotSupported, error);
  EXPECT_CUDA(cudaErrorNotSupported, cudaGetLastError());
}

TEST(NotOnACpu, symbolsOfDeviceCodeAreNone) {
  void* memory = nullptr;
  EXPECT_CUDA(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&memory, &kernel));
  EXPECT_CUDA(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(&kernel, &memory, 1));
  cudaGetLastError();
}

TEST(NotOnACpu, graphsAreWhatWasCaptured) {
  TestStream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphConditionalHandle handle = 0;
  size_t nNodes = 0;
  bool ran = false;
  auto work = [&] { ran = true; };
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  launch(stream, work);
  EXPECT_CUDA(cudaErrorNotSupported,
              cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 0, 0));
  ASSERT_CUDA_OK(cudaStreamEndCapture(stream, &graph)) << "a refused change broke the capture";
  EXPECT_CUDA(cudaErrorNotSupported, cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, nullptr));
  EXPECT_CUDA(cudaErrorNotSupported, cudaGraphConditionalHandleCreate(&handle, graph, 0, 0));
  EXPECT_CUDA(cudaErrorNotSupported, cudaGraphNodeGetDependencies(node, &node, nullptr, &nNodes));
  EXPECT_CUDA(cudaErrorNotSupported, cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr,
                                                                   0, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(captureStatus(stream), cudaStreamCaptureStatusNone);
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
  cudaGetLastError();
}

TEST(Profiler, mayBeStarted) {
  EXPECT_CUDA_OK(cudaProfilerStart());
  EXPECT_CUDA_OK(cudaProfilerStop());
}

}  // namespace
}  // namespace cinch::cudart
