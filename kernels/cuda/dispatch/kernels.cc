#include "kernels/cuda/dispatch/kernels.h"

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>

#include "kernels/device_table.h"

namespace cinch::cuda {
namespace {

static_assert(kNoMachineCode == cudaErrorNoKernelImageForDevice);

// Asking for a kernel's attributes loads it.
int loadAll() {
  for (const void* const kernel : allKernels()) {
    cudaFuncAttributes attributes;
    if (const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel)) return error;
  }
  return cudaSuccess;
}

}  // namespace

KernelList allKernels() {
  KernelList kernels;
  listEncodeKernels(kernels);
  listReduceKernels(kernels);
  listPlainReduceKernels(kernels);
  listDecodeKernels(kernels);
  listProbeKernels(kernels);
  listTallyKernels(kernels);
  listSumKernels(kernels);
  return kernels;
}

// What failed is not tried again: by then, kernels of NCCL's may run that wait for this rank.
int loadKernels() {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  static std::mutex mutex;
  // Never destroyed: communicators may be made while the process ends.
  static auto& outcomes = *new std::map<int, int>;
  const std::lock_guard lock(mutex);
  const auto [outcome, isFirst] = outcomes.try_emplace(device, cudaSuccess);
  if (isFirst) outcome->second = loadAll();
  return outcome->second;
}

}  // namespace cinch::cuda
