// For any CPU of the architecture.
#include "kernels/host/define_compilation.h"
#include "kernels/host/portable_decoder.h"
#include "kernels/host/portable_encoder.h"

namespace cinch::host::baseline {
template <BlockCodec C>
using Decoder = PortableDecoder<C>;
template <BlockCodec C>
using Encoder = PortableEncoder<C, Decoder<C>, PortableRotation>;
}  // namespace cinch::host::baseline

CINCH_DEFINE_COMPILATION(baseline, Encoder, Decoder, )
