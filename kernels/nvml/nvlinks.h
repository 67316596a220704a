// How a GPU is joined to others. CUDA's runtime does not say: NVIDIA's management library (NVML)
// does, which comes with the driver and is not linked.
#pragma once

namespace cinch {

// How many NVLink connections of the GPU with this PCI bus id are in use. False where that cannot
// be found out.
bool countNvlinks(const char* pciBusId, int* nActive);

}  // namespace cinch
