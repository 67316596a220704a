// The grid of a codec launch on the current device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace cinch::cuda {

// `nPlanes` planes of rows of CTAs, each row sharing `nTiles` tiles: as many CTAs as the tuning
// allows, and no more than there is work for, but at least one per row. Only reads device
// attributes: no wait, nothing that a capture would mind.
cudaError_t gridFor(uint64_t nTiles, uint32_t nRows, dim3* grid, uint32_t nPlanes = 1);

}  // namespace cinch::cuda
