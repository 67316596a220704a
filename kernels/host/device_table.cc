// The exported table of the host backend: device operations are the emulator's, launches are the
// CPU codec on the emulator's streams.
#include "kernels/device_table.h"

#include <cstdio>
#include <span>
#include <utility>

#include "kernels/host/host_codec.h"
#include "kernels/host/launch_queue.h"
#include "kernels/host/runtime_symbols.h"
#include "kernels/nvml/nvlinks.h"

// One symbol leaves this library.
extern "C" [[gnu::visibility("default")]] cinch::DeviceTable cinchDeviceTable_v1;

namespace cinch::host {
namespace {

constexpr int kSymbolNotFound = 302;  // cudaErrorSharedObjectSymbolNotFound
constexpr int kCapabilityMajor = 75;  // cudaDevAttrComputeCapabilityMajor
constexpr int kCapabilityMinor = 76;
constexpr unsigned kPortableMapped = 3;
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kDefaultEvent = 0;
constexpr unsigned kDisableTiming = 2;
constexpr unsigned kExternal = 1;  // of a record or wait in a capture
constexpr int kNotCapturing = 0;
constexpr int kCaptureInvalidated = 2;
// CUDA gives an invalidated capture no id, but the stream is still in it.
constexpr uint64_t kInvalidatedCapture = UINT64_MAX;
constexpr int kCopyDefault = 4;

RuntimeSymbols runtime;
LaunchQueue* launches;  // never destroyed: streams may still run when the process ends

int initialise() {
  if (launches) return 0;
  if (!findRuntimeSymbols(runtime)) return kSymbolNotFound;
  static char name[32];
  std::snprintf(name, sizeof name, "host %s", fastestHostCodec().name);
  cinchDeviceTable_v1.name = name;
  launches = new LaunchQueue(runtime, fastestHostCodec());
  return 0;
}

const char* errorName(int error) {
  if (launches) return runtime.cudaGetErrorName(error);
  return error == kSymbolNotFound ? "cudaErrorSharedObjectSymbolNotFound" : "not initialised";
}

int getDevice(int* device) {
  return runtime.cudaGetDevice(device);
}
int setDevice(int device) {
  return runtime.cudaSetDevice(device);
}

int pciBusId(char* text, int size) {
  int device = 0;
  const int error = runtime.cudaGetDevice(&device);
  return error ? error : runtime.cudaDeviceGetPCIBusId(text, size, device);
}

int deviceName(char* text, int size) {
  int device = 0, major = 0, minor = 0;
  if (const int error = runtime.cudaGetDevice(&device)) return error;
  for (const auto& [attribute, value] :
       {std::pair{kCapabilityMajor, &major}, std::pair{kCapabilityMinor, &minor}})
    if (const int error = runtime.cudaDeviceGetAttribute(value, attribute, device)) return error;
  std::snprintf(text, static_cast<size_t>(size), "the emulated device (compute capability %d.%d)",
                major, minor);
  return 0;
}

int loadKernels(uint32_t, SmShare* share) {
  *share = {};
  return launches->loadKernels();
}

int nvlinks(int* nActive) {
  char busId[32];
  if (const int error = pciBusId(busId, sizeof busId)) return error;
  return countNvlinks(busId, nActive) ? 0 : kNotSupported;
}

int allocate(void** memory, size_t nBytes) {
  return runtime.cudaMalloc(memory, nBytes);
}
int release(void* memory) {
  return runtime.cudaFree(memory);
}
int allocateHost(void** memory, size_t nBytes) {
  return runtime.cudaHostAlloc(memory, nBytes, kPortableMapped);
}
int releaseHost(void* memory) {
  return runtime.cudaFreeHost(memory);
}
int copyAsync(void* to, const void* from, size_t nBytes, void* stream) {
  return runtime.cudaMemcpyAsync(to, from, nBytes, kCopyDefault, stream);
}
int clearAsync(void* memory, size_t nBytes, void* stream) {
  return runtime.cudaMemsetAsync(memory, 0, nBytes, stream);
}

int memoryInfo(size_t* nFree, size_t* nTotal) {
  return runtime.cudaMemGetInfo(nFree, nTotal);
}

int streamCreate(void** stream) {
  return runtime.cudaStreamCreateWithFlags(stream, kNonBlocking);
}
int streamDestroy(void* stream) {
  return runtime.cudaStreamDestroy(stream);
}

// Returns when what `enqueue` puts on a stream of its own is done, which no other stream waits for.
template <class Enqueue>
int onOwnStream(const Enqueue& enqueue) {
  void* stream = nullptr;
  if (const int error = streamCreate(&stream)) return error;
  int error = enqueue(stream);
  if (error == 0) error = runtime.cudaStreamSynchronize(stream);
  const int destroyError = streamDestroy(stream);
  return error ? error : destroyError;
}
int clearNow(void* memory, size_t nBytes) {
  return onOwnStream([&](void* stream) { return clearAsync(memory, nBytes, stream); });
}
int copyNow(void* to, const void* from, size_t nBytes) {
  return onOwnStream([&](void* stream) { return copyAsync(to, from, nBytes, stream); });
}

int allocateReturnable(void** memory, size_t nBytes) {
  return onOwnStream([&](void* stream) { return runtime.cudaMallocAsync(memory, nBytes, stream); });
}
int giveBack(void* memory, void* stream) {
  return runtime.cudaFreeAsync(memory, stream);
}

int captureId(void* stream, uint64_t* id) {
  int status = kNotCapturing;
  unsigned long long found = 0;
  const int error =
      runtime.cudaStreamGetCaptureInfo(stream, &status, &found, nullptr, nullptr, nullptr, nullptr);
  if (status == kNotCapturing) found = 0;
  *id = status == kCaptureInvalidated ? kInvalidatedCapture : found;
  return error;
}
int streamSynchronize(void* stream) {
  return runtime.cudaStreamSynchronize(stream);
}
int exchangeCaptureMode(int* mode) {
  return runtime.cudaThreadExchangeStreamCaptureMode(mode);
}

int eventCreate(void** event) {
  return runtime.cudaEventCreateWithFlags(event, kDisableTiming);
}
int timedEventCreate(void** event) {
  return runtime.cudaEventCreateWithFlags(event, kDefaultEvent);
}
int eventDestroy(void* event) {
  return runtime.cudaEventDestroy(event);
}
int eventQuery(void* event) {
  const int error = runtime.cudaEventQuery(event);
  // CUDA notes "not ready" as the thread's last error, where the program would find it.
  if (error == kNotReady) runtime.cudaGetLastError();
  return error;
}
int eventRecord(void* event, void* stream) {
  return runtime.cudaEventRecord(event, stream);
}
int eventElapsed(float* milliseconds, void* start, void* end) {
  const int error = runtime.cudaEventElapsedTime(milliseconds, start, end);
  if (error == kNotReady) runtime.cudaGetLastError();
  return error;
}
int streamWaitEvent(void* stream, void* event) {
  return runtime.cudaStreamWaitEvent(stream, event, 0);
}
int eventRecordInGraph(void* event, void* stream) {
  return runtime.cudaEventRecordWithFlags(event, stream, kExternal);
}
int streamWaitEventInGraph(void* stream, void* event) {
  return runtime.cudaStreamWaitEvent(stream, event, kExternal);
}

// There is no profiler to tell.
void rangePush(const char*) {}
void rangePop() {}

template <class Launch>
int enqueue(const Launch* launch, void* stream) {
  return launches->enqueue(std::span(launch, 1), stream);
}
template <class Launch>
int enqueueAll(const Launch* first, uint32_t n, void* stream) {
  return launches->enqueue(std::span(first, n), stream);
}

}  // namespace
}  // namespace cinch::host

using namespace cinch::host;

cinch::DeviceTable cinchDeviceTable_v1 = {
    .version = cinch::kDeviceTableVersion,
    .size = sizeof(cinch::DeviceTable),
    .name = "host",
    .chunkValues = 512 << 10,
    .initialise = initialise,
    .errorName = errorName,
    .getDevice = getDevice,
    .setDevice = setDevice,
    .pciBusId = pciBusId,
    .deviceName = deviceName,
    .loadKernels = loadKernels,
    .nvlinks = nvlinks,
    .allocate = allocate,
    .release = release,
    .memoryInfo = memoryInfo,
    .allocateReturnable = allocateReturnable,
    .giveBack = giveBack,
    .allocateHost = allocateHost,
    .releaseHost = releaseHost,
    .copyAsync = copyAsync,
    .clearAsync = clearAsync,
    .clearNow = clearNow,
    .copyNow = copyNow,
    .captureId = captureId,
    .streamSynchronize = streamSynchronize,
    .streamCreate = streamCreate,
    .streamDestroy = streamDestroy,
    .exchangeCaptureMode = exchangeCaptureMode,
    .eventCreate = eventCreate,
    .timedEventCreate = timedEventCreate,
    .eventDestroy = eventDestroy,
    .eventQuery = eventQuery,
    .eventRecord = eventRecord,
    .eventElapsed = eventElapsed,
    .streamWaitEvent = streamWaitEvent,
    .eventRecordInGraph = eventRecordInGraph,
    .streamWaitEventInGraph = streamWaitEventInGraph,
    .rangePush = rangePush,
    .rangePop = rangePop,
    .encode = enqueueAll<cinch::EncodeLaunch>,
    .reduce = enqueueAll<cinch::ReduceLaunch>,
    .decode = enqueueAll<cinch::DecodeLaunch>,
    .probe = enqueue<cinch::ProbeLaunch>,
    .tally = enqueue<cinch::TallyLaunch>,
    .sum = enqueue<cinch::SumLaunch>,
};
