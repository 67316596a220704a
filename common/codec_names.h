// The names of codecs as users write them, for code that knows no codec.
#pragma once

#include <string>
#include <string_view>

namespace cinch {

// Those of kernels/codec/registry.h for calls, whose test compares the two lists.
#define CINCH_CODEC_NAMES "q2|q3|q4|q5|q6|q8|h2|h3|h4|sign|fp8|bf16|fp16"

// The codec that is taken for one release instead of one that is no more ("q4-64"). Null where
// `name`, in any case, is none of those.
const char* successorOfCodec(std::string_view name);

// What to tell users who name a codec that has a successor.
std::string retiredCodecText(std::string_view name);

}  // namespace cinch
