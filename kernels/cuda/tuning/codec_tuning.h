// The numbers of a codec launch that depend on the GPU, by compute capability. Plain data, so that
// a benchmark can print what it ran with.
#pragma once

#include <cstdint>

namespace cinch::cuda {

// Threads of one CTA. Any whole number of warps works; the kernels keep nothing per CTA but a few
// sums, so larger CTAs only cost scheduling granularity.
inline constexpr uint32_t kThreadsPerCta = 256;
inline constexpr uint32_t kLanesPerBlock = 16;
inline constexpr uint32_t kBlocksPerCta = kThreadsPerCta / kLanesPerBlock;
inline constexpr uint32_t kMaxGridRows = 65535;  // CUDA's limit
// Block numbers are 32 bits wide, and must not wrap when a thread steps past the last one.
inline constexpr uint64_t kMaxRowBlocks = uint64_t{1} << 31;

struct CodecTuning {
  uint32_t fromCapability;  // 10 * major + minor: the entry holds from here on
  uint32_t ctasPerSm;       // grid size limit; the rest of the work is done in a loop
};

// As many CTAs as an SM can hold: the loads of one warp wait while others compute. Predicted from
// the chips' limits; no measurement has set these yet.
inline constexpr CodecTuning kCodecTunings[] = {
    {75, 4},   // 1024 threads per SM
    {80, 8},   // 2048
    {86, 6},   // 1536
    {90, 8},   // 2048
    {120, 6},  // 1536
};

constexpr CodecTuning codecTuning(uint32_t capability) {
  CodecTuning best = kCodecTunings[0];
  for (const CodecTuning& each : kCodecTunings)
    if (each.fromCapability <= capability) best = each;
  return best;
}

static_assert(codecTuning(89).fromCapability == 86 && codecTuning(100).fromCapability == 90);

}  // namespace cinch::cuda
