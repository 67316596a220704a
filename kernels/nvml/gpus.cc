#include "kernels/nvml/gpus.h"

#include <dlfcn.h>

#include "kernels/nvml/nvlinks.h"

namespace cinch {
namespace {

// The part of nvml.h that is used here.
using Gpu = struct nvmlDevice_st*;
constexpr int kSuccess = 0;
struct PciInfo {  // nvmlPciInfo_t
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
};

struct Nvml {
  int (*initialise)();
  int (*shutDown)();
  int (*count)(unsigned* nGpus);
  int (*gpuAt)(unsigned index, Gpu* gpu);
  int (*name)(Gpu gpu, char* text, unsigned size);
  int (*pciInfo)(Gpu gpu, PciInfo* info);
};

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

bool findAll(void* library, Nvml& nvml) {
  return find(library, "nvmlInit_v2", nvml.initialise) &&
         find(library, "nvmlShutdown", nvml.shutDown) &&
         find(library, "nvmlDeviceGetCount_v2", nvml.count) &&
         find(library, "nvmlDeviceGetHandleByIndex_v2", nvml.gpuAt) &&
         find(library, "nvmlDeviceGetName", nvml.name) &&
         find(library, "nvmlDeviceGetPciInfo_v3", nvml.pciInfo);
}

GpuName nameAt(const Nvml& nvml, unsigned index) {
  Gpu gpu = nullptr;
  char text[96] = "GPU";
  PciInfo info{};
  GpuName found;
  if (nvml.gpuAt(index, &gpu) != kSuccess) return {"a GPU that does not answer"};
  (void)nvml.name(gpu, text, sizeof text);
  found.name = text;
  if (nvml.pciInfo(gpu, &info) == kSuccess && !countNvlinks(info.busId, &found.nNvlinks))
    found.nNvlinks = -1;
  return found;
}

}  // namespace

bool listGpus(std::vector<GpuName>& gpus) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  Nvml nvml{};
  unsigned nGpus = 0;
  if (library == nullptr || !findAll(library, nvml)) return false;
  if (nvml.initialise() != kSuccess) return false;
  const bool isKnown = nvml.count(&nGpus) == kSuccess;
  for (unsigned i = 0; isKnown && i < nGpus; ++i) gpus.push_back(nameAt(nvml, i));
  (void)nvml.shutDown();
  return isKnown;
}

}  // namespace cinch
