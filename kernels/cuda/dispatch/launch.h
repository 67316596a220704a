// The codec's launches on CUDA, with the contracts of EncodeLaunch, ReduceLaunch, DecodeLaunch,
// ProbeLaunch, TallyLaunch and SumLaunch in kernels/device_table.h. Each returns 0 or a
// cudaError_t.
//
// Encoded buffers (output of encode and reduce, peers, input of decode) must be aligned to 16
// bytes; cudaErrorMisalignedAddress otherwise. Values and residuals may have any alignment of their
// type, and are fastest at 16 bytes.
#pragma once

#include "kernels/device_table.h"

namespace cinch::cuda {

int launchEncode(const EncodeLaunch* launches, uint32_t n, void* stream);
int launchReduce(const ReduceLaunch* launches, uint32_t n, void* stream);
int launchDecode(const DecodeLaunch* launches, uint32_t n, void* stream);
int launchProbe(const ProbeLaunch* launch, void* stream);
int launchTally(const TallyLaunch* launch, void* stream);
int launchSum(const SumLaunch* launch, void* stream);

}  // namespace cinch::cuda
