// Runs probes, tallies and sums of a backend and of the host on the same data and expects the same
// bytes.
#pragma once

#include "tests/unit/kernels/support.h"

namespace cinch::test {

// The tallies of a buffer of `type`, alone or beside another one of as many values.
std::vector<TileTally> talliesOf(const host::HostCodec& codec, ElementType type, uint64_t count,
                                 const void* values, const void* others, InputFactor factor = {});

// One launch drawn from a seed: type, alignment, input factor, awkward values, with others or
// without.
void expectTalliesLikeHost(const host::HostCodec& codec, uint64_t count, uint32_t seed);

// The sum of some parts, drawn likewise, beside the reference's; with a part's own memory anywhere.
void expectSumsLikeReference(const host::HostCodec& codec, uint64_t count, uint32_t seed);

// The same of a probe: with each kind of residual, after some calls of its own and others'.
void expectProbesLikeHost(const host::HostCodec& codec, uint64_t count, uint32_t seed);

}  // namespace cinch::test
