// The devices.

#include <unistd.h>

#include <cstdio>

#include "emulator/cudart/api.h"
#include "emulator/cudart/capture_rules.h"
#include "emulator/cudart/device.h"
#include "emulator/cudart/event.h"
#include "emulator/cudart/memory.h"
#include "emulator/cudart/pool.h"
#include "emulator/cudart/stream.h"
#include "emulator/environment.h"

namespace cinch::cudart {
namespace {

// Limits are those of an H100, so that programs which refuse old devices go on.
void describeExecution(cudaDeviceProp& device) {
  device.major = emulator::capability() / 10;
  device.minor = emulator::capability() % 10;
  device.warpSize = 32;
  device.regsPerBlock = device.regsPerMultiprocessor = 65536;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerBlockOptin = 227 << 10;
  device.sharedMemPerMultiprocessor = 228 << 10;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiProcessor = 2048;
  device.maxThreadsDim[0] = device.maxThreadsDim[1] = 1024;
  device.maxThreadsDim[2] = 64;
  device.maxGridSize[0] = 0x7fffffff;
  device.maxGridSize[1] = device.maxGridSize[2] = 65535;
  device.multiProcessorCount = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  device.concurrentKernels = 1;
  device.asyncEngineCount = 1;
  device.streamPrioritiesSupported = 1;
}

void describeMemory(cudaDeviceProp& device) {
  device.totalGlobalMem = Memory::instance().total();
  device.canMapHostMemory = 1;
  device.unifiedAddressing = 1;
  device.memoryPoolsSupported = 1;
  device.integrated = 1;
  device.pageableMemoryAccess = 1;
}

// Where links are known, no two processes of a host get the same place: it holds the process's
// number.
void describePlace(cudaDeviceProp& device, int number) {
  if (emulator::links() == emulator::Links::unknown) {
    device.pciBusID = number;
    return;
  }
  const auto process = static_cast<int>(getpid());
  device.pciDomainID = process >> 8 & 0xffff;
  device.pciBusID = process & 0xff;
  device.pciDeviceID = number;
}

cudaDeviceProp describe(int number) {
  cudaDeviceProp device = {};
  std::snprintf(device.name, sizeof device.name, "Cinch emulator (CPU)");
  std::snprintf(device.uuid.bytes, sizeof device.uuid.bytes, "cinch-emulator");
  device.uuid.bytes[sizeof device.uuid.bytes - 1] = static_cast<char>(number);
  describeExecution(device);
  describeMemory(device);
  describePlace(device, number);
  return device;
}

int attributeOf(const cudaDeviceProp& device, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return device.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX:
      return device.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimY:
      return device.maxThreadsDim[1];
    case cudaDevAttrMaxBlockDimZ:
      return device.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX:
      return device.maxGridSize[0];
    case cudaDevAttrMaxGridDimY:
      return device.maxGridSize[1];
    case cudaDevAttrMaxGridDimZ:
      return device.maxGridSize[2];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(device.sharedMemPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(device.sharedMemPerBlockOptin);
    case cudaDevAttrWarpSize:
      return device.warpSize;
    case cudaDevAttrMaxRegistersPerBlock:
      return device.regsPerBlock;
    case cudaDevAttrMultiProcessorCount:
      return device.multiProcessorCount;
    case cudaDevAttrIntegrated:
      return device.integrated;
    case cudaDevAttrCanMapHostMemory:
      return device.canMapHostMemory;
    case cudaDevAttrConcurrentKernels:
      return device.concurrentKernels;
    case cudaDevAttrPciBusId:
      return device.pciBusID;
    case cudaDevAttrPciDeviceId:
      return device.pciDeviceID;
    case cudaDevAttrPciDomainId:
      return device.pciDomainID;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return device.maxThreadsPerMultiProcessor;
    case cudaDevAttrAsyncEngineCount:
      return device.asyncEngineCount;
    case cudaDevAttrUnifiedAddressing:
      return device.unifiedAddressing;
    case cudaDevAttrComputeCapabilityMajor:
      return device.major;
    case cudaDevAttrComputeCapabilityMinor:
      return device.minor;
    case cudaDevAttrStreamPrioritiesSupported:
      return device.streamPrioritiesSupported;
    case cudaDevAttrPageableMemoryAccess:
      return device.pageableMemoryAccess;
    case cudaDevAttrMemoryPoolsSupported:
      return device.memoryPoolsSupported;
    default:
      return 0;
  }
}

// `text` is null-terminated and cut to `size`, as CUDA does.
void writeBusId(const cudaDeviceProp& device, char* text, int size) {
  std::snprintf(text, static_cast<size_t>(size), "%04x:%02x:%02x.0", device.pciDomainID,
                device.pciBusID, device.pciDeviceID);
}

}  // namespace
}  // namespace cinch::cudart

using namespace cinch::cudart;

cudaError_t cudaGetDeviceCount(int* count) {
  return api([&] {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = deviceCount();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api([&] {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = currentDevice();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api([&] {
    if (!deviceExists(device)) return cudaErrorInvalidDevice;
    chooseDevice(device);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api([&] {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (!deviceExists(device)) return cudaErrorInvalidDevice;
    *properties = describe(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return api([&] {
    if (value == nullptr || attribute < cudaDevAttrMaxThreadsPerBlock ||
        attribute >= cudaDevAttrMax)
      return cudaErrorInvalidValue;
    if (!deviceExists(device)) return cudaErrorInvalidDevice;
    *value = attributeOf(describe(device), attribute);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  return api([&] {
    if (text == nullptr || size < 1) return cudaErrorInvalidValue;
    if (!deviceExists(device)) return cudaErrorInvalidDevice;
    writeBusId(describe(device), text, size);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api([&] {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api([] {
    if (const cudaError_t error = checkDevice(); error != cudaSuccess) return error;
    useDevice();
    synchronizeDevice();
    return cudaSuccess;
  });
}

// Ends all streams, events, graphs and allocations of the process.
cudaError_t cudaDeviceReset() {
  return api([] {
    if (const cudaError_t error = checkDevice(); error != cudaSuccess) return error;
    synchronizeDevice();
    destroyAllStreams();
    events().clear();
    graphExecs().clear();
    graphs().clear();
    Memory::instance().releaseAll();
    resetPools();
    deactivateDevices();
    return cudaSuccess;
  });
}
