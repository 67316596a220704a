// Runs a codec and the reference on the same awkward data and expects the same bytes, residuals and
// state of both. For codecs whose encoded buffers must be aligned: the CUDA kernels, on a device or
// in the model of one.
#pragma once

#include "tests/unit/kernels/support.h"

namespace cinch::test {

// One launch of each kind, drawn from a seed: every type, codec, alignment, tail, and mode.
struct DifferentialCase {
  uint64_t count;
  uint32_t nShards;
  uint32_t seed;
};

// Fails the running test where encode, reduce or decode differ from the reference in anything but
// the order in which squared errors are summed.
void expectLikeReference(const host::HostCodec& codec, const DifferentialCase& shape);

// The same for whole allreduces of `nCalls` calls with error feedback, which carry residuals on.
void expectAllReducesLikeReference(const host::HostCodec& codec, const AllReduce& settings,
                                   uint32_t nCalls);

// The same for bytes of a peer that has other ideas: refused headers, random content.
void expectHostileBytesLikeReference(const host::HostCodec& codec, uint32_t seed);

// The committed vectors of wire version 1.
void expectGoldenVectors(const host::HostCodec& codec);

}  // namespace cinch::test
