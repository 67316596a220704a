// The numbers of a codec launch that depend on the GPU, by compute capability. Plain data, so that
// a benchmark can print what it ran with.
#pragma once

#include <cstdint>
#include <cstdio>

namespace cinch::cuda {

// Threads of one CTA. Any whole number of warps works; the kernels keep nothing per CTA but a few
// sums, so larger CTAs only cost scheduling granularity.
inline constexpr uint32_t kThreadsPerCta = 128;
inline constexpr uint32_t kTilesPerCta = kThreadsPerCta / 32;
inline constexpr uint32_t kMaxGridRows = 65535;  // CUDA's limit
// Octets of a shard are counted in 32 bits, and steps past the last tile must not wrap.
inline constexpr uint64_t kMaxRowTiles = uint64_t{1} << 25;

// Calls of a group of so many tiles go together in a kernel, which is the one for any codec: beyond
// half a million values, which take an H200 about a microsecond, their own does it faster. Not
// measured.
inline constexpr uint64_t kMaxBatchedTiles = 512;

struct CodecTuning {
  uint32_t fromCapability;  // 10 * major + minor: the entry holds from here on
  uint32_t ctasPerSm;       // that a grid counts on; the rest of the work is done in a loop
  uint32_t freeSms;         // SMs' worth of CTAs that a grid leaves to NCCL's kernels
  uint32_t kibInFlight;     // loads that an SM must have under way to be fast, for comparison
};

// Predicted from the chips' limits; no measurement has set these yet. A CTA has up to 168 registers
// for each thread and a tile of 1024 values for each warp, of 2 to 8 bytes a value: 3 or 4 CTAs of
// 4 warps have 24 to 128 KiB under way. NCCL takes up to 32 CTAs, mostly fewer than 16.
inline constexpr CodecTuning kCodecTunings[] = {
    {75, 3, 4, 12},   // Turing: 64 KiB of shared memory hold 3 CTAs
    {80, 6, 8, 16},   // A100
    {86, 5, 4, 16},   // GeForce and workstation chips
    {90, 6, 8, 48},   // H100, H200
    {100, 6, 8, 64},  // B200
    {120, 5, 4, 48},
};

constexpr CodecTuning codecTuning(uint32_t capability) {
  CodecTuning best = kCodecTunings[0];
  for (const CodecTuning& each : kCodecTunings)
    if (each.fromCapability <= capability) best = each;
  return best;
}

static_assert(codecTuning(89).fromCapability == 86 && codecTuning(103).fromCapability == 100);

// CTAs of a grid on a device with so many SMs: at least one.
constexpr uint64_t gridLimit(CodecTuning tuning, uint64_t nSms) {
  const uint64_t kept = nSms > tuning.freeSms ? nSms - tuning.freeSms : 1;
  return kept * tuning.ctasPerSm;
}

inline void printCodecTunings(FILE* file) {
  std::fprintf(file, "capability  threads/CTA  CTAs/SM  SMs left free  KiB in flight per SM\n");
  for (const CodecTuning& each : kCodecTunings)
    std::fprintf(file, "%10u  %11u  %7u  %13u  %20u\n", each.fromCapability, kThreadsPerCta,
                 each.ctasPerSm, each.freeSms, each.kibInFlight);
}

}  // namespace cinch::cuda
