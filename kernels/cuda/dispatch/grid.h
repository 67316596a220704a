// The grid of a codec launch on the current device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace cinch::cuda {

// `nPlanes` planes of rows of CTAs, each row sharing `nTiles` tiles: as many CTAs as there is work
// for, and no more than run at once of `kernel` on the codec's share of the device, but at least
// one per row. Asks CUDA for the current device alone: no wait, nothing that a capture would mind.
cudaError_t gridFor(const void* kernel, uint64_t nTiles, uint32_t nRows, dim3* grid,
                    uint32_t nPlanes = 1);

}  // namespace cinch::cuda
