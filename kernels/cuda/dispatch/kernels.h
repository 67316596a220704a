// All kernels of this library: which there are, and that they are loaded before any is launched.
#pragma once

#include <vector>

namespace cinch::cuda {

// By their handles, which are the addresses of __global__ functions on the host.
using KernelList = std::vector<const void*>;

// Those of each file, appended.
void listEncodeKernels(KernelList& kernels);
void listReduceKernels(KernelList& kernels);
void listPlainReduceKernels(KernelList& kernels);
void listDecodeKernels(KernelList& kernels);
void listProbeKernels(KernelList& kernels);
void listTallyKernels(KernelList& kernels);
void listSumKernels(KernelList& kernels);

KernelList allKernels();

template <class Launch>
void add(KernelList& kernels, void (*kernel)(Launch)) {
  kernels.push_back(reinterpret_cast<const void*>(kernel));
}

// Loads them all onto the current device, with the contract of DeviceTable::loadKernels.
int loadKernels();

}  // namespace cinch::cuda
