// The committed vectors of wire version 1, as a codec should make them.
#pragma once

#include "kernels/host/host_codec.h"

namespace cinch::test {

// Runs every launch of every file; fails the running test where a byte differs. Encoded buffers are
// aligned to 16 bytes.
void expectGoldenVectors(const host::HostCodec& codec);

// Fails the running test where a codec of the registry has no vectors of an element type.
void expectVectorsOfAllCodecs();

}  // namespace cinch::test
