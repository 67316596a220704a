// What the codec costs on this machine's CPU.
#pragma once

#include "tools/cinch/predict/cost_model.h"

namespace cinch {

// Measured now with the fastest host codec of this CPU on one thread, with error feedback
// where the rule has a gain; takes about half a second.
CodecCost measureCodec(wire::CodecFormat codec, ElementType type, const CodingRule& rule);

// "avx512", ...: what measureCodec() measures.
const char* measuredCodecName();

}  // namespace cinch
