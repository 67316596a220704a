// The shape of a codec launch. Plain data.
#pragma once

#include <cstdint>

#include "kernels/device_table.h"

namespace cinch::cuda {

// Threads of one CTA. Any whole number of warps works: the kernels keep nothing per CTA but a few
// sums.
inline constexpr uint32_t kThreadsPerCta = 128;
inline constexpr uint32_t kTilesPerCta = kThreadsPerCta / 32;
inline constexpr uint32_t kMaxGridRows = 65535;  // CUDA's limit
// Octets of a shard are counted in 32 bits, and steps past the last tile must not wrap.
inline constexpr uint64_t kMaxRowTiles = uint64_t{1} << 25;

// Calls of a group of so many tiles go together in the kernel for anything: beyond half a million
// values, which take an H200 some microseconds, their own does it faster. Not measured.
inline constexpr uint64_t kMaxBatchedTiles = 512;

// So many percent of a device's SMs, but one at least.
constexpr SmShare shareOf(uint32_t nSms, uint32_t percent) {
  const uint32_t nUsed = nSms * percent / 100;
  return {nUsed < 1 ? 1 : nUsed, nSms};
}

// CTAs in each of `nRows` rows that share `nTiles` tiles, of a kernel of which the device runs
// `nResident` at once: no more than there is work for or than run at once, but one at least.
constexpr uint64_t ctasPerRow(uint64_t nTiles, uint64_t nRows, uint64_t nResident) {
  const uint64_t wanted = (nTiles + kTilesPerCta - 1) / kTilesPerCta;
  const uint64_t fits = nResident / nRows;
  const uint64_t some = wanted < fits ? wanted : fits;
  return some < 1 ? 1 : some;
}

}  // namespace cinch::cuda
