#include "kernels/cuda/device_operations.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <map>
#include <mutex>

#include "kernels/device_table.h"
#include "kernels/nvml/nvlinks.h"

namespace cinch::cuda {
namespace {

static_assert(kNotReady == cudaErrorNotReady);
static_assert(kNotSupported == cudaErrorNotSupported);
static_assert(cudaStreamCaptureModeRelaxed == 2);  // as kernels/device_table.h says

constexpr uint64_t kInvalidatedCapture = UINT64_MAX;

cudaStream_t asStream(void* stream) {
  return static_cast<cudaStream_t>(stream);
}
cudaEvent_t asEvent(void* event) {
  return static_cast<cudaEvent_t>(event);
}

// Returns when what `enqueue` puts on a stream of its own is done: nothing of the program's is
// waited for, and no capture notices.
template <class Enqueue>
int onOwnStream(const Enqueue& enqueue) {
  cudaStream_t stream = nullptr;
  if (const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking))
    return error;
  cudaError_t error = enqueue(stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  const cudaError_t destroyed = cudaStreamDestroy(stream);
  return error != cudaSuccess ? error : destroyed;
}

// Of the current device, made when it is first asked for. What is given back is not kept: CUDA
// returns it when the program next waits for the device. Nor does memory depend on what another
// stream has still to do: who asks for it waits for nothing.
cudaError_t makePool(int device, cudaMemPool_t* pool) {
  int hasPools = 0;
  if (const cudaError_t error =
          cudaDeviceGetAttribute(&hasPools, cudaDevAttrMemoryPoolsSupported, device))
    return error;
  if (hasPools == 0) return cudaErrorNotSupported;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  if (const cudaError_t error = cudaMemPoolCreate(pool, &properties)) return error;
  cudaError_t error = cudaSuccess;
  for (const cudaMemPoolAttr attribute :
       {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowInternalDependencies}) {
    int isAllowed = 0;
    if (error == cudaSuccess) error = cudaMemPoolSetAttribute(*pool, attribute, &isAllowed);
  }
  if (error != cudaSuccess) cudaMemPoolDestroy(*pool);
  return error;
}

cudaError_t ownPool(cudaMemPool_t* pool) {
  static auto& mutex = *new std::mutex;                    // as the pools, as long as the process
  static auto& pools = *new std::map<int, cudaMemPool_t>;  // by device
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  const std::lock_guard lock(mutex);
  const auto known = pools.find(device);
  if (known != pools.end()) {
    *pool = known->second;
    return cudaSuccess;
  }
  const cudaError_t error = makePool(device, pool);
  if (error == cudaSuccess) pools.emplace(device, *pool);
  return error;
}

}  // namespace

int initialise() {
  int nDevices = 0;
  return cudaGetDeviceCount(&nDevices);
}

const char* errorName(int error) {
  return cudaGetErrorName(static_cast<cudaError_t>(error));
}
int getDevice(int* device) {
  return cudaGetDevice(device);
}
int setDevice(int device) {
  return cudaSetDevice(device);
}

int pciBusId(char* text, int size) {
  int device = 0;
  const cudaError_t error = cudaGetDevice(&device);
  return error != cudaSuccess ? error : cudaDeviceGetPCIBusId(text, size, device);
}

int deviceName(char* text, int size) {
  int device = 0;
  cudaDeviceProp found = {};
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&found, device);
  if (error == cudaSuccess)
    std::snprintf(text, static_cast<size_t>(size), "%s (compute capability %d.%d)", found.name,
                  found.major, found.minor);
  return error;
}

int nvlinks(int* nActive) {
  char busId[32];
  if (const int error = pciBusId(busId, sizeof busId)) return error;
  return countNvlinks(busId, nActive) ? cudaSuccess : cudaErrorNotSupported;
}

int allocate(void** memory_dev, size_t nBytes) {
  return cudaMalloc(memory_dev, nBytes);
}
int release(void* memory_dev) {
  return cudaFree(memory_dev);
}

int memoryInfo(size_t* nFree, size_t* nTotal) {
  return cudaMemGetInfo(nFree, nTotal);
}

int allocateReturnable(void** memory_dev, size_t nBytes) {
  cudaMemPool_t pool = nullptr;
  if (const cudaError_t error = ownPool(&pool)) return error;
  return onOwnStream([&](cudaStream_t stream) {
    return cudaMallocFromPoolAsync(memory_dev, nBytes, pool, stream);
  });
}

int giveBack(void* memory_dev, void* stream) {
  return cudaFreeAsync(memory_dev, asStream(stream));
}

int allocateHost(void** memory, size_t nBytes) {
  return cudaHostAlloc(memory, nBytes, cudaHostAllocPortable | cudaHostAllocMapped);
}
int releaseHost(void* memory) {
  return cudaFreeHost(memory);
}

int copyAsync(void* to, const void* from, size_t nBytes, void* stream) {
  return cudaMemcpyAsync(to, from, nBytes, cudaMemcpyDefault, asStream(stream));
}

int clearAsync(void* memory_dev, size_t nBytes, void* stream) {
  return cudaMemsetAsync(memory_dev, 0, nBytes, asStream(stream));
}

int clearNow(void* memory_dev, size_t nBytes) {
  return onOwnStream(
      [&](cudaStream_t stream) { return cudaMemsetAsync(memory_dev, 0, nBytes, stream); });
}

int copyNow(void* to, const void* from, size_t nBytes) {
  return onOwnStream([&](cudaStream_t stream) {
    return cudaMemcpyAsync(to, from, nBytes, cudaMemcpyDefault, stream);
  });
}

int captureId(void* stream, uint64_t* id) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long active = 0;
  const cudaError_t error = cudaStreamGetCaptureInfo(asStream(stream), &status, &active);
  *id = status == cudaStreamCaptureStatusInvalidated ? kInvalidatedCapture
        : status == cudaStreamCaptureStatusActive    ? active
                                                     : 0;
  return error;
}

int streamSynchronize(void* stream) {
  return cudaStreamSynchronize(asStream(stream));
}

// Not before the program's kernels, nor before NCCL's: the codec of the next chunk and the exchange
// of this one become ready together, and the exchange takes longer.
int streamCreate(void** stream) {
  return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking);
}

int streamDestroy(void* stream) {
  return cudaStreamDestroy(asStream(stream));
}

int exchangeCaptureMode(int* mode) {
  cudaStreamCaptureMode wanted = static_cast<cudaStreamCaptureMode>(*mode);
  const cudaError_t error = cudaThreadExchangeStreamCaptureMode(&wanted);
  *mode = wanted;
  return error;
}

int eventCreate(void** event) {
  return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), cudaEventDisableTiming);
}
int timedEventCreate(void** event) {
  return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), cudaEventDefault);
}
int eventDestroy(void* event) {
  return cudaEventDestroy(asEvent(event));
}
int eventQuery(void* event) {
  return cudaEventQuery(asEvent(event));
}
int eventRecord(void* event, void* stream) {
  return cudaEventRecord(asEvent(event), asStream(stream));
}
int eventElapsed(float* milliseconds, void* start, void* end) {
  return cudaEventElapsedTime(milliseconds, asEvent(start), asEvent(end));
}
int streamWaitEvent(void* stream, void* event) {
  return cudaStreamWaitEvent(asStream(stream), asEvent(event), cudaEventWaitDefault);
}
int eventRecordInGraph(void* event, void* stream) {
  return cudaEventRecordWithFlags(asEvent(event), asStream(stream), cudaEventRecordExternal);
}
int streamWaitEventInGraph(void* stream, void* event) {
  return cudaStreamWaitEvent(asStream(stream), asEvent(event), cudaEventWaitExternal);
}

}  // namespace cinch::cuda
