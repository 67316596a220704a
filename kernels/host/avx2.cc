// For x86-64 with AVX2.
#include "kernels/host/define_compilation.h"
#include "kernels/host/portable_decoder.h"
#include "kernels/host/portable_encoder.h"

#pragma GCC push_options
#pragma GCC target("avx2")
#include "kernels/host/simd/avx2.h"
#include "kernels/host/simd/vector_encoder.h"
#pragma GCC pop_options

namespace cinch::host::avx2 {
template <BlockCodec C>
using Decoder = VectorDecoder<Avx2, C>;
template <BlockCodec C>
using Encoder = VectorEncoder<Avx2, C>;
}  // namespace cinch::host::avx2

CINCH_DEFINE_COMPILATION(avx2, Encoder, Decoder, gnu::target("avx2"), )
