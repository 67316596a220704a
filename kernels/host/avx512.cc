// For x86-64 with AVX-512 F, BW, VL and DQ.
#include "kernels/host/define_compilation.h"
#include "kernels/host/portable_decoder.h"
#include "kernels/host/portable_encoder.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")
#include "kernels/host/simd/avx512.h"
#include "kernels/host/simd/vector_encoder.h"
#pragma GCC pop_options

namespace cinch::host::avx512 {
template <BlockCodec C>
using Decoder = VectorDecoder<Avx512, C>;
template <BlockCodec C>
using Encoder = VectorEncoder<Avx512, C>;
}  // namespace cinch::host::avx512

CINCH_DEFINE_COMPILATION(
    avx512, Encoder, Decoder,
    gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512"), )
