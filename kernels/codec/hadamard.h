// Codes for rotated blocks, whose values are nearly Gaussian whatever they were: levels and
// thresholds close to those of the Lloyd-Max quantiser, at the scale of the mean magnitude.
// docs/wire-format.md, "h2 to h4".
//
// Levels are integers, so that they times a bf16 scale are exact. Thresholds are where a cubic, odd
// and rising up to its limit, passes through integers: as good as comparing with each one (0.1 % of
// squared error), and the same few operations for any number of bits. The levels of two bits are
// 5 to 8 % longer than Lloyd-Max's, which make what they code smaller
// (docs/decisions/016-levels-of-two-bits.md).
#pragma once

#include "kernels/codec/codec.h"
#include "kernels/codec/magnitude_sum.h"
#include "kernels/codec/rounding.h"
#include "kernels/core/value_range.h"

namespace cinch::codec {

// What a block stores: a bf16 number, a 64th of the mean magnitude.
struct GridStep {
  uint16_t bits;
};

// In grid steps: the positive levels, inner ones first, a byte each; and the cubic
// t * (linear - cubic * t * t) for |t| up to the limit.
struct GaussianTable {
  uint64_t levels;
  float linear;
  float cubic;
  float limit;
};

template <uint32_t bits>
inline constexpr GaussianTable kGaussianTable = {};
template <>
inline constexpr GaussianTable kGaussianTable<2> = {0x7e27, 1.0f / 78.0f, 0.0f, 117.0f};
template <>
inline constexpr GaussianTable kGaussianTable<3> = {0xac6b3c14, 0.0252f, 1.895e-7f, 192.0f};
template <>
inline constexpr GaussianTable kGaussianTable<4> = {0xdaa481654c35200a, 0.0475f, 2.96e-7f, 230.0f};

template <uint32_t bits>
struct HadamardScale {
  static constexpr uint32_t kLevels = 1u << (bits - 1);  // positive ones
  static constexpr float kMiddle = static_cast<float>(kLevels) - 0.5f;

  float step;
  float inverse;  // of the step; 0 for a block of zeros

  CINCH_HD constexpr explicit HadamardScale(GridStep stored)
      : step(Bf16::toFloat(stored.bits)),
        inverse(step >= core::kSmallestScale ? 1.0f / step : 0.0f) {}

  CINCH_HD constexpr bool isMarked() const { return !isFinite(step); }

  CINCH_HD constexpr float position(float value) const {
    constexpr GaussianTable kTable = kGaussianTable<bits>;
    const float t = clamp(value * inverse, -kTable.limit, kTable.limit);
    return t * (kTable.linear - kTable.cubic * (t * t)) + kMiddle;
  }

  // Positions are already in range; the mask is for those that are not position()'s.
  CINCH_HD constexpr uint32_t codeAt(float position) const {
    return roundToCode(position) & (2 * kLevels - 1);
  }

  // Codes count from the lowest level to the highest.
  CINCH_HD constexpr float decode(uint32_t code) const {
    const bool isPositive = code >= kLevels;
    const uint32_t index = isPositive ? code - kLevels : kLevels - 1 - code;
    const auto level = static_cast<int32_t>(kGaussianTable<bits>.levels >> 8 * index & 0xff);
    return static_cast<float>(isPositive ? level : -level) * step;
  }
};

template <uint32_t bits>
struct HadamardCodec {
  static constexpr CodecName kNameText{'h', bits};
  static constexpr const char* kName = kNameText.text;
  static constexpr wire::CodecFormat kFormat = {codecId(CodecFamily::rotated, bits), bits,
                                                sizeof(GridStep)};
  static constexpr bool kIsRotated = true;
  // The distance between codes is not that between values.
  static constexpr bool kDithers = false;

  using Summary = MagnitudeSum;
  using BlockMeta = GridStep;
  using Scale = HadamardScale<bits>;

  // Marks a block that held a NaN or an infinity, or values whose sum is one.
  static constexpr GridStep kMarked = {Bf16::kCanonicalNan};

  CINCH_HD static constexpr GridStep blockMeta(MagnitudeSum magnitudes, uint32_t, Rounding) {
    if (!magnitudes.isFinite()) return kMarked;
    // A 128th for the mean, a 64th of that for the grid.
    const float exact = magnitudes.sum * 0x1p-13f;
    return {exact < core::kSmallestScale ? uint16_t{0} : Bf16::fromFloat(exact)};
  }
};

}  // namespace cinch::codec
