// Values of another kind than those around them. XLA reduces a job's loss and its gradients in one
// call, a sum of hundreds beside values of 1e-3: a code whose steps such a value sets leaves
// nothing of the others in its block, and is too coarse for a number that people read. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device_table.h"

namespace cinch {

// More tiles than this are what the gradient is like.
inline constexpr uint64_t kMaxOutlierTiles = 8;

// The numbers of the tiles, ascending, in which one value has most of the power, and that have far
// more of it than tiles have elsewhere. `tiles`: of exact values, all finite.
std::vector<uint64_t> outlierTiles(std::span<const TileTally> tiles);

}  // namespace cinch
