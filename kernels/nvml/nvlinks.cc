#include "kernels/nvml/nvlinks.h"

#include <dlfcn.h>

namespace cinch {
namespace {

// The part of nvml.h that is used here.
using Gpu = struct nvmlDevice_st*;
using NvmlStatus = int;
constexpr NvmlStatus kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3;
constexpr unsigned kMaxLinks = 18;  // of a GPU: NVML_NVLINK_MAX_LINKS
constexpr int kLinkIsActive = 1;    // NVML_FEATURE_ENABLED

struct Nvml {
  NvmlStatus (*initialise)();
  NvmlStatus (*shutDown)();
  NvmlStatus (*findGpu)(const char* busId, Gpu* gpu);
  NvmlStatus (*linkState)(Gpu gpu, unsigned link, int* isActive);
};

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

bool findAll(void* library, Nvml& nvml) {
  return find(library, "nvmlInit_v2", nvml.initialise) &&
         find(library, "nvmlShutdown", nvml.shutDown) &&
         find(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.findGpu) &&
         find(library, "nvmlDeviceGetNvLinkState", nvml.linkState);
}

// Links that a GPU lacks are refused in one of two ways.
bool count(const Nvml& nvml, const char* busId, int& nActive) {
  Gpu gpu = nullptr;
  if (nvml.findGpu(busId, &gpu) != kSuccess) return false;
  nActive = 0;
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    int isActive = 0;
    const NvmlStatus status = nvml.linkState(gpu, link, &isActive);
    if (status == kSuccess)
      nActive += isActive == kLinkIsActive;
    else if (status != kNotSupported && status != kInvalidArgument)
      return false;
  }
  return true;
}

}  // namespace

bool countNvlinks(const char* pciBusId, int* nActive) {
  // Kept: it is the driver's, and whoever asks once will ask again.
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  Nvml nvml{};
  if (library == nullptr || !findAll(library, nvml)) return false;
  // It counts its users: the program's own use of it goes on.
  if (nvml.initialise() != kSuccess) return false;
  const bool isKnown = count(nvml, pciBusId, *nActive);
  (void)nvml.shutDown();
  return isKnown;
}

}  // namespace cinch
