// Runs codecs and the reference on the same awkward data and expects the same bytes, residuals and
// state of all.
#pragma once

#include <span>

#include "tests/unit/kernels/virtual_ranks.h"

namespace cinch::test {

// What a backend leaves open. On the host, encoded buffers lie anywhere and statistics are right to
// the last bit; CUDA, on a device or in the model of one, wants encoded buffers aligned to 16 bytes
// and adds squared errors in any order.
enum class Backend { host, cuda };

// One launch of each kind, drawn from a seed: every type, codec, cut into shards, alignment, tail,
// input factor, residual storage and mode. Seeds that follow one another take the codecs in turn.
struct DifferentialCase {
  uint64_t count;  // an upper bound where the seed chooses fixed shards
  uint32_t nShards;
  uint32_t seed;
  bool isDefault =
      false;  // a call as the defaults make it, which backends have code of their own for
};

// Fails the running test where encode, reduce (into codes or values) or decode differ from the
// reference.
void expectLikeReference(std::span<const host::HostCodec> codecs, Backend backend,
                         const DifferentialCase& shape);

// The same for bytes of a peer that has other ideas: refused headers, random content. Returns
// whether all of them were accepted.
bool expectHostileBytesLikeReference(std::span<const host::HostCodec> codecs, Backend backend,
                                     const DifferentialCase& shape);

// The same for whole allreduces of `nCalls` calls with error feedback, which carry residuals on.
void expectAllReducesLikeReference(const host::HostCodec& codec, const Collective& settings,
                                   uint32_t nCalls);

}  // namespace cinch::test
