// The GPUs of this machine, as NVIDIA's management library (NVML) shows them: without CUDA.
#pragma once

#include <string>
#include <vector>

namespace cinch {

struct GpuName {
  std::string name;
  int nNvlinks = -1;  // in use; -1: not known
};

// False where NVML is not there or cannot be used.
bool listGpus(std::vector<GpuName>& gpus);

}  // namespace cinch
