// All kernels of this library: which there are, that they are loaded before any is launched, and
// how many of their CTAs a device runs at once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernels/device_table.h"

namespace cinch::cuda {

// By their handles, which are the addresses of __global__ functions on the host.
using KernelList = std::vector<const void*>;

// Those of each operation, appended.
void listEncodeKernels(KernelList& kernels);
void listReduceKernels(KernelList& kernels);
void listDecodeKernels(KernelList& kernels);
void listProbeKernels(KernelList& kernels);
void listTallyKernels(KernelList& kernels);
void listSumKernels(KernelList& kernels);

KernelList allKernels();

template <class Launch>
const void* handleOf(void (*kernel)(Launch)) {
  return reinterpret_cast<const void*>(kernel);
}
template <class Launch>
void add(KernelList& kernels, void (*kernel)(Launch)) {
  kernels.push_back(handleOf(kernel));
}

// Loads them all onto the current device, with the contract of DeviceTable::loadKernels.
int loadKernels(uint32_t smPercent, SmShare* share);

// How many CTAs of a loaded kernel run at the same time on the codec's share of the current
// device's SMs: a grid of more has a wave that is nearly empty. cudaErrorInvalidDeviceFunction
// where loadKernels() has not loaded it.
cudaError_t residentCtas(const void* kernel, uint64_t* nCtas);

}  // namespace cinch::cuda
