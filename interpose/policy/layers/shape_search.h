// Which layers the buckets of PyTorch DDP hold. Pure.
//
// Work is counted in steps of a search: one for each parameter at least, and for most models hardly
// more; a million are done in less than a second.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "interpose/policy/layers/bucket_layout.h"
#include "interpose/policy/layers/ddp_shapes.h"

namespace cinch {

// Which parameters, named by their place in the order of registration, each bucket holds.
struct BucketOrder {
  std::vector<uint32_t> parameters;  // bucket by bucket: each of 0 to n - 1 once
  std::vector<uint32_t> nPerBucket;  // each at least 1; they sum to n
};

// Finds the layers of the buckets of one order. Shapes and order must outlive it.
class ShapeSearch {
 public:
  // The order is of as many parameters as the shapes.
  ShapeSearch(const DdpShapes& shapes, const BucketOrder& order);

  size_t nBuckets() const { return order_.nPerBucket.size(); }

  // Bucket i has bucketCounts[i] elements; null if no reading of the shapes fills them exactly. Of
  // the readings that do, those count that need the fewest parameters without dimensions; where
  // they differ, the layout holds what they have in common: in each bucket, all from the first
  // parameter on which they differ to the last is one layer of unknown dimensions.
  //
  // Takes from `work`, and null when nothing is left of it.
  std::optional<std::vector<BucketLayout>> find(std::span<const uint64_t> bucketCounts,
                                                uint64_t& work) const;

  // Where a parameter goes. The buckets of which some parameters, but not all, have been read are
  // open, and each has a place among the open ones.
  struct Place {
    uint32_t bucket;
    uint32_t open;  // its place; when it closes, the last of the open ones takes it
    bool opens, closes;
  };

 private:
  std::vector<BucketLayout> arrange(std::span<const Layer> byParameter,
                                    std::span<const uint64_t> bucketCounts) const;

  const DdpShapes& shapes_;
  const BucketOrder& order_;
  std::vector<Place> places_;  // by parameter
};

}  // namespace cinch
