// The codec on the CPU, as plain synchronous functions: what the host backend enqueues, and what
// tests and tools call directly. Buffers need the alignment of their element type only.
//
// Several compilations of one source, for different instruction sets, plus the reference: all give
// the same bytes.
#pragma once

#include <span>
#include <string_view>

#include "kernels/device_table.h"

namespace cinch::host {

struct HostCodec {
  const char* name;  // "avx512", "avx2", "baseline", "reference"
  void (*encodeShards)(const EncodeLaunch& launch);
  void (*reduceShard)(const ReduceLaunch& launch);
  void (*decodeShards)(const DecodeLaunch& launch);
  // The same in all of them: fast enough without wider instructions.
  void (*probeInput)(const ProbeLaunch& launch);
  void (*tallyTiles)(const TallyLaunch& launch);
  void (*sumParts)(const SumLaunch& launch);
};

// Those that this CPU can run, the fastest first, the reference last.
std::span<const HostCodec> hostCodecs();

const HostCodec& fastestHostCodec();

// Null where the name is unknown or this CPU lacks the instructions.
const HostCodec* findHostCodec(std::string_view name);

}  // namespace cinch::host
