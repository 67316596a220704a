// Summaries of runs of values, merged in the tree of codec/codec.h.
#pragma once

#include "kernels/core/value_range.h"
#include "kernels/wire/wire_format.h"

namespace cinch::host {

// Of a block, of which the first nValues exist.
template <class Summary>
struct SummaryTree {
  static constexpr uint32_t kOctets = wire::kBlockElems / wire::kOctetElems;

  // Value i of octet o is leaf i * kOctets + o, so that every level of the tree, in the octets and
  // then across them, merges one half with the other.
  static Summary of(const float* values, uint32_t nValues) {
    Summary leaves[wire::kBlockElems];
    for (uint32_t octet = 0; octet < kOctets; ++octet)
      for (uint32_t i = 0; i < wire::kOctetElems; ++i) {
        const uint32_t index = octet * wire::kOctetElems + i;
        if (index < nValues) leaves[i * kOctets + octet] = Summary::of(values[index]);
      }
    for (uint32_t n = wire::kBlockElems / 2; n > 0; n /= 2)
      for (uint32_t i = 0; i < n; ++i) leaves[i] = leaves[i].mergedWith(leaves[i + n]);
    return leaves[0];
  }
};

// What is exact in any order takes the one that is fastest.
template <>
struct SummaryTree<core::ValueRange> {
  static core::ValueRange of(const float* values, uint32_t nValues) {
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (uint32_t i = 0; i < nValues; ++i) {
      const int32_t ordered = core::orderedBits(values[i]);
      low = ordered < low ? ordered : low;
      high = ordered > high ? ordered : high;
    }
    return {low, high};
  }
};
template <>
struct SummaryTree<core::Magnitude> {
  static core::Magnitude of(const float* values, uint32_t nValues) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < nValues; ++i) {
      const uint32_t bits = core::Magnitude::of(values[i]).bits;
      most = bits > most ? bits : most;
    }
    return {most};
  }
};

template <class Summary>
inline Summary summaryOf(const float* values, uint32_t nValues) {
  // For compilers: the number of a whole block's values is known.
  if (nValues == wire::kBlockElems) return SummaryTree<Summary>::of(values, wire::kBlockElems);
  return SummaryTree<Summary>::of(values, nValues);
}

}  // namespace cinch::host
