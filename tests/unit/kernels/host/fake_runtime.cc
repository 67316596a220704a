#include "tests/unit/kernels/host/fake_runtime.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define FAKE extern "C" [[gnu::visibility("default")]]

namespace cinch::test {

std::vector<std::string>& runtimeCalls() {
  static std::vector<std::string> calls;
  return calls;
}

std::set<const void*>& loadedKernels() {
  static std::set<const void*> kernels;
  return kernels;
}

namespace {
int note(const char* name) {
  runtimeCalls().push_back(name);
  return 0;
}
}  // namespace
}  // namespace cinch::test

using cinch::test::note;

FAKE int cinchEmulatorMarker;
int cinchEmulatorMarker = 1;

FAKE const char* cudaGetErrorName(int error) {
  return error == cinch::test::kFakeError ? "cudaErrorFake" : "cudaSuccess";
}
FAKE int cudaGetDevice(int* device) {
  *device = 3;
  return note("cudaGetDevice");
}
FAKE int cudaSetDevice(int device) {
  return device == 3 ? 0 : cinch::test::kFakeError;
}
FAKE int cudaDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<size_t>(size), "0000:%02x:00.0", device);
  return note("cudaDeviceGetPCIBusId");
}
FAKE int cudaDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : 0;
  return note("cudaDeviceGetAttribute");
}
FAKE int cinchEmulatorLoadKernel(const void* kernel) {
  cinch::test::loadedKernels().insert(kernel);
  return 0;
}
FAKE int cudaMalloc(void** memory, size_t nBytes) {
  *memory = std::malloc(nBytes);
  return note("cudaMalloc");
}
FAKE int cudaFree(void* memory) {
  std::free(memory);
  return note("cudaFree");
}
FAKE int cudaMallocAsync(void** memory, size_t nBytes, void*) {
  *memory = std::malloc(nBytes);
  return note("cudaMallocAsync");
}
FAKE int cudaFreeAsync(void* memory, void*) {
  std::free(memory);
  return note("cudaFreeAsync");
}
FAKE int cudaMemGetInfo(size_t* nFree, size_t* nTotal) {
  *nFree = *nTotal = size_t{1} << 30;
  return note("cudaMemGetInfo");
}
FAKE int cudaHostAlloc(void** memory, size_t nBytes, unsigned flags) {
  *memory = std::malloc(nBytes);
  return flags == 3 ? note("cudaHostAlloc") : cinch::test::kFakeError;
}
FAKE int cudaFreeHost(void* memory) {
  std::free(memory);
  return note("cudaFreeHost");
}
FAKE int cudaMemcpyAsync(void* to, const void* from, size_t nBytes, int kind, void*) {
  std::memcpy(to, from, nBytes);
  return kind == 4 ? note("cudaMemcpyAsync") : cinch::test::kFakeError;
}
FAKE int cudaMemsetAsync(void* memory, int value, size_t nBytes, void*) {
  std::memset(memory, value, nBytes);
  return note("cudaMemsetAsync");
}
FAKE int cudaStreamCreateWithFlags(void** stream, unsigned flags) {
  *stream = stream;
  return flags == 1 ? note("cudaStreamCreateWithFlags") : cinch::test::kFakeError;
}
FAKE int cudaStreamDestroy(void*) {
  return note("cudaStreamDestroy");
}
FAKE int cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id, void**,
                                  const void***, const void**, size_t*) {
  *status = stream == cinch::test::kBrokenStream ? 2 : stream == cinch::test::kCapturingStream;
  if (*status == 1) *id = cinch::test::kFakeCapture;
  return 0;
}
FAKE int cudaStreamSynchronize(void*) {
  return note("cudaStreamSynchronize");
}
FAKE int cudaThreadExchangeStreamCaptureMode(int* mode) {
  *mode = 1;
  return note("cudaThreadExchangeStreamCaptureMode");
}
FAKE int cudaEventCreateWithFlags(void** event, unsigned flags) {
  *event = event;
  constexpr unsigned kDisableTiming = 2;
  return note(flags == kDisableTiming ? "cudaEventCreateWithFlags, no timing"
                                      : "cudaEventCreateWithFlags");
}
FAKE int cudaEventDestroy(void*) {
  return note("cudaEventDestroy");
}
FAKE int cudaEventQuery(void*) {
  return 600;
}
FAKE int cudaGetLastError() {
  return note("cudaGetLastError");
}
FAKE int cudaEventElapsedTime(float* milliseconds, void*, void*) {
  *milliseconds = 1.5f;
  return note("cudaEventElapsedTime");
}
FAKE int cudaEventRecord(void*, void*) {
  return note("cudaEventRecord");
}
FAKE int cudaEventRecordWithFlags(void*, void*, unsigned flags) {
  return flags == 1 ? note("cudaEventRecordWithFlags") : cinch::test::kFakeError;
}
FAKE int cudaStreamWaitEvent(void*, void*, unsigned flags) {
  return note(flags == 1 ? "cudaStreamWaitEvent, external" : "cudaStreamWaitEvent");
}
FAKE int cudaLaunchHostFunc(void*, void (*function)(void*), void* argument) {
  function(argument);
  return note("cudaLaunchHostFunc");
}

// Launches in a capture are the launch queue's test's.
FAKE int cudaUserObjectCreate(void**, void*, void (*)(void*), unsigned, unsigned) {
  return cinch::test::kFakeError;
}
FAKE int cudaUserObjectRelease(void*, unsigned) {
  return cinch::test::kFakeError;
}
FAKE int cudaGraphRetainUserObject(void*, void*, unsigned, unsigned) {
  return cinch::test::kFakeError;
}
