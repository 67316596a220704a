// The compilations of shard_loops.h, one for each instruction set, in files of their own. Call one
// only where the CPU has the instructions (host_codec.cc asks).
#pragma once

#include "kernels/device_table.h"

namespace cinch::host {

#define CINCH_DECLARE_COMPILATION(name)          \
  namespace name {                               \
  void encodeShards(const EncodeLaunch& launch); \
  void reduceShard(const ReduceLaunch& launch);  \
  void decodeShards(const DecodeLaunch& launch); \
  }

CINCH_DECLARE_COMPILATION(baseline)
CINCH_DECLARE_COMPILATION(avx2)
CINCH_DECLARE_COMPILATION(avx512)
#undef CINCH_DECLARE_COMPILATION

}  // namespace cinch::host
