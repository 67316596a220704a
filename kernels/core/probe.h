// Whose values lie in a buffer? A bucket's gradient keeps its profile, the powers of its tiles,
// from a step to the next; another bucket's looks different. And a residual that has outgrown the
// values would drown them.
//
// What the limits do, on gradients of examples/train_lm (61 pairs of consecutive steps, all cuts):
// of 3782 calls with 128 tiles or more none is taken for a stranger's, with 64 tiles one in 670 and
// with 16, the smallest bucket that is compressed, one in 146, most of them while the loss begins
// to fall. On generated layers with scales over two decades: of buckets of 12 permuted layers
// 99.95 % are seen, of 8 other layers 99.97 %.
#pragma once

#include "kernels/core/call_state.h"
#include "kernels/core/residual_layout.h"

namespace cinch::core {

// A call is a stranger's where the powers of its tiles have changed by more than 2^kShiftLimit in
// the median (a loss scale that doubled: 2^2), or more than one in four of them by 2^kShiftLimit
// more or less than that, or one in two from or to zero.
inline constexpr float kShiftLimit = 1.5f;
inline constexpr uint32_t kDeviatingShare = 4;
inline constexpr uint32_t kFlippedShare = 2;
// Where batches are small, gradients of one bucket differ as those of two, and a residual that is
// lost costs: once in 64 calls 0.8 % of the loss of a small convolutional net (bench/training,
// digits). So the probe is believed once in so many calls on average.
inline constexpr uint32_t kCallsPerStranger = 1024;
// How often the power of the values that of the residual may be.
inline constexpr float kResidualLimit = 25.0f;

// The tiles of a bucket that are probed.
class ProbedTiles {
 public:
  CINCH_HD constexpr explicit ProbedTiles(uint64_t count)
      : count_(count), nTiles_(wire::ShardLayout::tilesOf(count)) {}

  CINCH_HD constexpr uint32_t size() const {
    return nTiles_ < kMaxProbes ? static_cast<uint32_t>(nTiles_) : kMaxProbes;
  }
  // The middle ones of so many equal parts of the bucket.
  CINCH_HD constexpr uint64_t tile(uint32_t probe) const {
    return (2 * probe + 1) * nTiles_ / (2 * size());
  }
  CINCH_HD constexpr uint32_t nValues(uint32_t probe) const {
    const uint64_t left = count_ - tile(probe) * wire::kTileElems;
    return left < wire::kTileElems ? static_cast<uint32_t>(left) : wire::kTileElems;
  }

 private:
  uint64_t count_;
  uint64_t nTiles_;
};

// The powers of a tile: lane l of 32 adds values l, l + 32, l + 64 ..., and lanes are added at
// distance 16, 8, 4, 2 and 1. Values that do not exist count as 0.
inline constexpr uint32_t kProbeLanes = 32;

// Of all probes, in their order.
CINCH_HD constexpr ProbePower totalOf(const ProbePower* powers, uint32_t nProbes) {
  ProbePower total = {0.0f, 0.0f};
  for (uint32_t i = 0; i < nProbes; ++i) {
    total.input += powers[i].input;
    total.residual += powers[i].residual;
  }
  return total;
}

// The level of a tile that is zero.
inline constexpr float kNoLevel = -__builtin_inff();

// Log2 of a power, to 0.01.
CINCH_HD constexpr float levelOf(float power) {
  constexpr float kSmallestNormal = 0x1p-126f, kLift = 0x1p24f;
  constexpr float kBend = 0.34f;  // of the logarithm between two powers of two
  if (!(power > 0.0f)) return kNoLevel;
  const bool isLifted = power < kSmallestNormal;
  const uint32_t bits = bitsOfFloat(isLifted ? power * kLift : power);
  const auto exponent = static_cast<int32_t>(bits >> 23) - (isLifted ? 127 + 24 : 127);
  const float fraction = floatOfBits((bits & 0x7fffff) | bitsOfFloat(1.0f)) - 1.0f;
  return static_cast<float>(exponent) + (fraction + kBend * fraction * (1.0f - fraction));
}

// How levels changed from a call to the next: by how much, or NaN where a tile was or is zero.
CINCH_HD constexpr float shiftOf(float now, float before) {
  const float shift = now - before;
  return isFinite(shift) ? shift : __builtin_nanf("");
}
CINCH_HD constexpr bool isFlipped(float now, float before) {
  return isFinite(now) != isFinite(before);
}

// The place of a shift in their order; NaN has none and takes none.
CINCH_HD constexpr uint32_t rankOf(const float* shifts, uint32_t nShifts, uint32_t index) {
  uint32_t rank = 0;
  for (uint32_t i = 0; i < nShifts; ++i)
    rank += shifts[i] < shifts[index] || (shifts[i] == shifts[index] && i < index) ? 1 : 0;
  return rank;
}
// The place of the median of so many.
CINCH_HD constexpr uint32_t medianRank(uint32_t n) {
  return (n - 1) / 2;
}

CINCH_HD constexpr bool isFar(float shift, float from) {
  return shift - from > kShiftLimit || from - shift > kShiftLimit;
}

// The change of a whole profile.
struct ProfileChange {
  float median = 0.0f;      // of the shifts
  uint32_t nShifts = 0;     // tiles that were and are not zero
  uint32_t nDeviating = 0;  // of those, far from the median
  uint32_t nFlipped = 0;

  CINCH_HD constexpr bool isStrange(uint32_t nProbes) const {
    // One more, since a few tiles are soon a quarter.
    return isFar(median, 0.0f) || nDeviating > nShifts / kDeviatingShare + 1 ||
           nFlipped > nProbes / kFlippedShare;
  }
};

// Ends a probe: `total` is of all probes. Returns whether the levels are to be kept: not where the
// values are not finite, which the end of the call deals with.
CINCH_HD inline bool conclude(const ProfileChange& change, ProbePower total, uint32_t nProbes,
                              SlotState& state, ProbeState& probe) {
  if (!isFinite(total.input)) return false;
  const bool isBelieved = probe.nStrangers * kCallsPerStranger <= probe.nCalls;
  const bool isStranger = probe.nCalls > 0 && isBelieved && change.isStrange(nProbes);
  // Also where the residual is not finite. One that is ignored anyway is no news.
  const bool isOverflow =
      total.input > 0.0f && !isPoisoned(state) && !(total.residual <= kResidualLimit * total.input);
  ++probe.nCalls;
  probe.nStrangers += isStranger ? 1 : 0;
  probe.nOverflows += isOverflow ? 1 : 0;
  if (isStranger || isOverflow) state.poisonOrdinal = state.ordinal;
  return true;
}

}  // namespace cinch::core
