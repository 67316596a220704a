// Statistics of a tile in an order of additions that is the same on every machine.
//
// A tile is 8 rows of 128 values, and a row is shared by four lanes: lane l has octets l, l + 4,
// l + 8 and l + 12 of it. A lane has eight sums of each kind, one for each place in an octet, to
// which it adds octet by octet; then it adds its sums at distance 4, 2 and 1. Lanes of a row are
// added at distance 2 and 1, rows at distance 4, 2 and 1.
#pragma once

#include "kernels/core/value_range.h"

namespace cinch::core {

inline constexpr uint32_t kRowLanes = 4;

// Of one kind, over a lane's octets. Values that do not exist are 0.
class LaneSum {
 public:
  CINCH_HD constexpr void addProducts(const float* a, const float* b) {
    for (uint32_t i = 0; i < wire::kOctetElems; ++i) at_[i] += a[i] * b[i];
  }

  CINCH_HD constexpr float total() const {
    return ((at_[0] + at_[4]) + (at_[2] + at_[6])) + ((at_[1] + at_[5]) + (at_[3] + at_[7]));
  }

 private:
  float at_[wire::kOctetElems] = {};
};

// Of the values of a row that exist; 0 where there are none.
CINCH_HD constexpr float squaredWidth(ValueRange range) {
  if (range.low > range.high) return 0.0f;
  const float width = floatOfOrderedBits(range.high) - floatOfOrderedBits(range.low);
  return width * width;
}

// What is stored: machines have NaNs of their own.
CINCH_HD constexpr TileTally canonical(const TileTally& tally) {
  using Stored = ElementTraits<ElementType::fp32>;
  return {Stored::fromFloat(tally.power), Stored::fromFloat(tally.squaredRanges),
          Stored::fromFloat(tally.otherPower), Stored::fromFloat(tally.product),
          Stored::fromFloat(tally.error)};
}

}  // namespace cinch::core
