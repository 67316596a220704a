// The codecs of a build that has one of its own: CINCH_CODEC_LIST names this file, and everything
// else of Cinch is compiled as it is. q8 is what int8 residuals are stored as, q4 what tests
// assume.
#pragma once

#include "kernels/codec/uniform.h"
#include "tests/codec_kit/ternary.h"

namespace cinch::codec {

using AllCodecs = CodecList<TernaryCodec, UniformCodec<4>, UniformCodec<8>>;

}  // namespace cinch::codec
