// Where one layer ends and the next begins in the buffer of a collective.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cinch {

// Not known: several parameters may hide in such a layer.
inline constexpr uint8_t kUnknownDims = 255;

// A parameter, or a run of them between two borders that are known. Biases and the parameters of
// normalisations have one dimension at most, matrices and kernels more.
struct Layer {
  uint64_t count;  // elements, at least 1
  uint8_t dims;
  bool operator==(const Layer&) const = default;
};

// The layers of one bucket in the order of its elements, which they fill without a gap.
using BucketLayout = std::vector<Layer>;

// No real buffer has more elements.
inline constexpr uint64_t kMaxLayerCount = uint64_t{1} << 44;

// The sum, or UINT64_MAX where it is beyond all real buffers.
inline uint64_t sumOf(std::span<const uint64_t> counts) {
  uint64_t sum = 0;
  for (const uint64_t count : counts) {
    if (count > kMaxLayerCount - sum) return UINT64_MAX;
    sum += count;
  }
  return sum;
}

// The elements of a bucket.
inline uint64_t countOf(const BucketLayout& bucket) {
  uint64_t count = 0;
  for (const Layer& layer : bucket) count += layer.count;
  return count;
}

}  // namespace cinch
