#include "kernels/cuda/dispatch/kernels.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "kernels/cuda/agent/cta.h"

namespace cinch::cuda {
namespace {

static_assert(kNoMachineCode == cudaErrorNoKernelImageForDevice);

// The kernels of one device.
struct Loaded {
  cudaError_t outcome = cudaSuccess;
  SmShare share;
  std::map<const void*, uint64_t> residentCtas;

  // Asking for a kernel's attributes loads it.
  cudaError_t load(const void* kernel) {
    cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    // Releases of CUDA differ in what they call that there is no machine code.
    if (error == cudaErrorInvalidDeviceFunction) return cudaErrorNoKernelImageForDevice;
    if (error != cudaSuccess) return error;
    const int nThreads = std::min(attributes.maxThreadsPerBlock, static_cast<int>(kThreadsPerCta));
    int nPerSm = 0;
    if (const cudaError_t unknown =
            cudaOccupancyMaxActiveBlocksPerMultiprocessor(&nPerSm, kernel, nThreads, 0))
      return unknown;
    residentCtas[kernel] = uint64_t{share.nUsed} * static_cast<uint64_t>(nPerSm);
    return cudaSuccess;
  }

  cudaError_t loadAll(int device, uint32_t smPercent) {
    int nSms = 0;
    if (const cudaError_t error =
            cudaDeviceGetAttribute(&nSms, cudaDevAttrMultiProcessorCount, device))
      return error;
    share = shareOf(static_cast<uint32_t>(nSms), smPercent);
    for (const void* const kernel : allKernels())
      if (const cudaError_t error = load(kernel)) return error;
    return cudaSuccess;
  }
};

// Guards the devices. Held while kernels are loaded: launches on other devices wait meanwhile,
// which is in the first creator call for a device.
std::mutex mutex;
// Never destroyed: communicators may be made while the process ends.
std::map<int, Loaded>& devices() {
  static auto& all = *new std::map<int, Loaded>;
  return all;
}

}  // namespace

KernelList allKernels() {
  KernelList kernels;
  listEncodeKernels(kernels);
  listReduceKernels(kernels);
  listDecodeKernels(kernels);
  listProbeKernels(kernels);
  listTallyKernels(kernels);
  listSumKernels(kernels);
  return kernels;
}

// What failed is not tried again: by then, kernels of NCCL's may run that wait for this rank.
int loadKernels(uint32_t smPercent, SmShare* share) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  const std::lock_guard lock(mutex);
  const auto [loaded, isFirst] = devices().try_emplace(device);
  if (isFirst) loaded->second.outcome = loaded->second.loadAll(device, smPercent);
  *share = loaded->second.share;
  return loaded->second.outcome;
}

cudaError_t residentCtas(const void* kernel, uint64_t* nCtas) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  const std::lock_guard lock(mutex);
  const auto loaded = devices().find(device);
  if (loaded == devices().end()) return cudaErrorInvalidDeviceFunction;
  const auto found = loaded->second.residentCtas.find(kernel);
  if (found == loaded->second.residentCtas.end()) return cudaErrorInvalidDeviceFunction;
  *nCtas = found->second;
  return cudaSuccess;
}

}  // namespace cinch::cuda
