// libnvidia-ml.so.1 for machines without a GPU: which NVLink connections the emulated device has.
#include "emulator/environment.h"

#define API extern "C" [[gnu::visibility("default")]]

namespace {

using cinch::emulator::Links;
using cinch::emulator::links;

constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6;
constexpr unsigned kLinks = 4;

int device;  // its address is its handle

}  // namespace

API int nvmlInit_v2() {
  return kSuccess;
}

API int nvmlShutdown() {
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
