// Symmetric codes without a zero ("mid-rise"): odd multiples of a half step, clipped below the
// largest magnitude where few bits gain from it. docs/wire-format.md, "c2 to c8".
#pragma once

#include "kernels/codec/codec.h"
#include "kernels/codec/rounding.h"
#include "kernels/core/value_range.h"

namespace cinch::codec {

// What a block stores: a bf16 number.
struct HalfStep {
  uint16_t bits;
};

// The outermost level, as a share of the largest magnitude: what gives Gaussian blocks of 128 the
// least squared error.
CINCH_HD constexpr float clippedAt(uint32_t bits) {
  return bits == 2 ? 0.54f : bits == 3 ? 0.74f : bits == 4 ? 0.88f : 1.0f;
}

template <uint32_t bits>
struct ClippedScale {
  static constexpr int32_t kTopCode = (1 << bits) - 1;
  static constexpr float kMiddle = static_cast<float>(kTopCode) / 2;

  float halfStep;
  float inverse;  // of the whole step; 0 for a block of zeros

  CINCH_HD constexpr ClippedScale(HalfStep stored, NoMeta)
      : halfStep(Bf16::toFloat(stored.bits)),
        inverse(halfStep >= core::kSmallestScale ? 1.0f / (2.0f * halfStep) : 0.0f) {}

  CINCH_HD constexpr bool isMarked() const { return !isFinite(halfStep); }

  CINCH_HD constexpr float position(float value) const { return value * inverse + kMiddle; }

  CINCH_HD constexpr uint32_t codeAt(float position) const {
    return roundToCode(clamp(position, 0.0f, static_cast<float>(kTopCode)));
  }

  CINCH_HD constexpr float decode(uint32_t code) const {
    return static_cast<float>(2 * static_cast<int32_t>(code) - kTopCode) * halfStep;
  }
};

template <uint32_t bits, uint32_t blockElems = 128>
struct ClippedCodec {
  static constexpr CodecName kNameText{'c', bits, blockElems};
  static constexpr const char* kName = kNameText.text;
  static constexpr wire::CodecFormat kFormat = {codecId(CodecFamily::clipped, bits, blockElems),
                                                bits, sizeof(HalfStep), blockElems};
  static constexpr uint32_t kGroupElems = blockElems;
  static constexpr bool kIsRotated = false;
  // What is clipped is biased.
  static constexpr bool kDithers = clippedAt(bits) == 1.0f;

  using Summary = core::Magnitude;
  using BlockMeta = HalfStep;
  using GroupMeta = NoMeta;
  using Scale = ClippedScale<bits>;

  // Marks a block that held a NaN or an infinity.
  static constexpr HalfStep kMarked = {Bf16::kCanonicalNan};

  CINCH_HD static constexpr HalfStep blockMeta(core::Magnitude magnitude, uint32_t,
                                               Rounding rounding) {
    if (!magnitude.isFinite()) return kMarked;
    constexpr float kPerHalfStep = clippedAt(bits) / static_cast<float>(Scale::kTopCode);
    const float exact = magnitude.largest() * kPerHalfStep;
    if (exact < core::kSmallestScale) return {0};
    return {rounding == Rounding::stochastic ? bf16Above(exact) : Bf16::fromFloat(exact)};
  }
  CINCH_HD static constexpr NoMeta groupMeta(core::Magnitude, HalfStep) { return {}; }
};

}  // namespace cinch::codec
