// What is said of the layers of a period's calls, by several who may contradict each other. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interpose/policy/layers/bucket_layout.h"

namespace cinch {

class LayerClaims {
 public:
  // The element counts of the calls of a period, in order.
  explicit LayerClaims(std::span<const uint64_t> period);

  size_t nCalls() const { return layouts_.size(); }
  // All calls in order from one of them on, round and round.
  std::span<const uint64_t> from(size_t start) const;

  // Claims that the calls from `start` on have these layers; an empty layout claims nothing.
  void make(size_t start, std::vector<BucketLayout> layouts);

  // For each call its layers, empty where none or several were claimed. To be asked once.
  std::vector<BucketLayout> undisputed();

 private:
  std::vector<uint64_t> twice_;  // the period
  std::vector<BucketLayout> layouts_;
  std::vector<bool> disputed_;
};

// For each call of a period its layers, where these are all buckets of a model in the order of
// their AllReduces. Empty where it is not one of consecutive calls that fit them, or could be so in
// more than one way.
std::vector<BucketLayout> placeBuckets(std::span<const BucketLayout> buckets,
                                       std::span<const uint64_t> period);

}  // namespace cinch
