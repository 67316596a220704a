// libnvidia-ml.so.1 for machines without a GPU: which NVLink connections the emulated device has.
// The names that PyTorch insists on where it finds the library are here, too.
#include "emulator/environment.h"

#define API extern "C" [[gnu::visibility("default")]]

namespace {

using cinch::emulator::Links;
using cinch::emulator::links;

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6;
constexpr int kCudaVersion = 13000;
constexpr unsigned kLinks = 4;

int device;  // its address is its handle

}  // namespace

API int nvmlInit_v2() {
  return kSuccess;
}

API int nvmlShutdown() {
  return kSuccess;
}

API int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (version == nullptr) return kInvalidArgument;
  *version = kCudaVersion;
  return kSuccess;
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** handle) {
  *handle = &device;
  return links() == Links::unknown ? kNotFound : kSuccess;
}

API int nvmlDeviceGetNvLinkState(void*, unsigned link, int* isActive) {
  if (links() != Links::nvlink || link >= kLinks) return kNotSupported;
  *isActive = 1;
  return kSuccess;
}

// What is at the other end of a link is not emulated.
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) {
  return kNotSupported;
}

API int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int*) {
  return kNotSupported;
}

API int nvmlDeviceGetGpuFabricInfoV(void*, void*) {
  return kNotSupported;
}

API int nvmlDeviceGetComputeRunningProcesses(void*, unsigned*, void*) {
  return kNotSupported;
}
