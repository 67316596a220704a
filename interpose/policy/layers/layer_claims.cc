#include "interpose/policy/layers/layer_claims.h"

#include <algorithm>
#include <utility>

namespace cinch {

LayerClaims::LayerClaims(std::span<const uint64_t> period)
    : twice_(period.begin(), period.end()), layouts_(period.size()), disputed_(period.size()) {
  twice_.insert(twice_.end(), period.begin(), period.end());
}

std::span<const uint64_t> LayerClaims::from(size_t start) const {
  return std::span(twice_).subspan(start, layouts_.size());
}

void LayerClaims::make(size_t start, std::vector<BucketLayout> layouts) {
  for (size_t i = 0; i < layouts.size(); ++i) {
    const size_t call = (start + i) % layouts_.size();
    if (layouts_[call].empty())
      layouts_[call] = std::move(layouts[i]);
    else if (layouts_[call] != layouts[i])
      disputed_[call] = true;
  }
}

std::vector<BucketLayout> LayerClaims::undisputed() {
  for (size_t i = 0; i < layouts_.size(); ++i)
    if (disputed_[i]) layouts_[i].clear();
  return std::move(layouts_);
}

std::vector<BucketLayout> placeBuckets(std::span<const BucketLayout> buckets,
                                       std::span<const uint64_t> period) {
  LayerClaims claims(period);
  if (buckets.size() > period.size()) return claims.undisputed();
  std::vector<uint64_t> counts;
  for (const BucketLayout& bucket : buckets) counts.push_back(countOf(bucket));
  for (size_t start = 0; start < claims.nCalls(); ++start)
    if (std::ranges::equal(claims.from(start).first(counts.size()), counts))
      claims.make(start, {buckets.begin(), buckets.end()});
  return claims.undisputed();
}

}  // namespace cinch
