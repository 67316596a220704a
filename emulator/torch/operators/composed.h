// Operators that PyTorch has for GPUs alone, composed from others.
#pragma once

#include <torch/library.h>

namespace cinch::emulator_torch {

// Each puts its kernels in place for the key CUDA.
void addNormalisation(torch::Library& library);  // SyncBatchNorm's statistics, RMSNorm
void addRecurrentCells(torch::Library& library);
void addDropout(torch::Library& library);
void addMixedTypes(torch::Library& library);  // results of another type than the operands

}  // namespace cinch::emulator_torch
