// Looks up the layers of one bucket among those of a job's calls. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "interpose/policy/layers/bucket_layout.h"
#include "interpose/policy/sequence.h"

namespace cinch {

// Says the layers of consecutive AllReduces of gradients, by their element counts, round and round:
// for each an empty layout where they are not known.
using LayersOfCalls = std::function<std::vector<BucketLayout>(std::span<const uint64_t>)>;

// For each call of a period its layers. The small ones may be buckets or not, and are tried as
// both.
std::vector<BucketLayout> layersOfPeriod(std::span<const GradientCall> period,
                                         const LayersOfCalls& layersOfCalls);

// The layers of the first call of the period that has this slot.
BucketLayout layersOfSlot(std::span<const GradientCall> period,
                          std::span<const BucketLayout> layersOfPeriod, uint32_t slot);

// The layers of a bucket of which only the element count is known, where `layers` are those of some
// consecutive calls. Empty where calls of this count differ. The last calls may be a step that is
// not complete: those behind the last one with layers do not count.
BucketLayout layersOfCount(std::span<const GradientCall> calls,
                           std::span<const BucketLayout> layers, uint64_t count);

}  // namespace cinch
