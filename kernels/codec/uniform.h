// Blockwise uniform codes between the smallest and the largest value of a block ("min-max").
// docs/wire-format.md, "q2 to q8".
//
// Two bits are too few for both ends and the many values between: rounded to nearest, their levels
// span a part of the range (docs/decisions/016-levels-of-two-bits.md).
#pragma once

#include "kernels/codec/codec.h"
#include "kernels/codec/rounding.h"
#include "kernels/core/value_range.h"

namespace cinch::codec {

// What a block stores: two bf16 numbers.
struct StepAndMinimum {
  uint16_t step;
  uint16_t minimum;
};

template <uint32_t bits>
struct UniformScale {
  static constexpr float kTopCode = static_cast<float>((1u << bits) - 1);

  float step;
  float minimum;
  float inverse;  // of the step; 0 for a constant block

  CINCH_HD constexpr explicit UniformScale(StepAndMinimum pair)
      : step(Bf16::toFloat(pair.step)),
        minimum(Bf16::toFloat(pair.minimum)),
        inverse(step >= core::kSmallestScale ? 1.0f / step : 0.0f) {}

  CINCH_HD constexpr bool isMarked() const { return !isFinite(step) || !isFinite(minimum); }

  CINCH_HD constexpr float position(float value) const { return (value - minimum) * inverse; }

  CINCH_HD constexpr uint32_t codeAt(float position) const {
    return roundToCode(clamp(position, 0.0f, kTopCode));
  }

  CINCH_HD constexpr float decode(uint32_t code) const {
    return minimum + static_cast<float>(static_cast<int32_t>(code)) * step;
  }
};

template <uint32_t bits>
struct UniformCodec {
  static constexpr CodecName kNameText{'q', bits};
  static constexpr const char* kName = kNameText.text;
  static constexpr wire::CodecFormat kFormat = {codecId(CodecFamily::uniform, bits), bits,
                                                sizeof(StepAndMinimum)};
  static constexpr bool kIsRotated = false;
  static constexpr bool kDithers = true;

  using Summary = core::ValueRange;
  using BlockMeta = StepAndMinimum;
  using Scale = UniformScale<bits>;

  // Marks a block that held a NaN or an infinity.
  static constexpr StepAndMinimum kMarked = {Bf16::kCanonicalNan, 0};

  CINCH_HD static constexpr StepAndMinimum blockMeta(core::ValueRange range, uint32_t,
                                                     Rounding rounding) {
    if (!range.isFinite()) return kMarked;
    const float low = range.lowest(), high = range.highest();
    if (rounding == Rounding::stochastic) {
      // Rounded outwards: a value beyond the codes would be biased.
      const uint16_t minimum = bf16Below(low);
      return withStep(bf16Above((high - Bf16::toFloat(minimum)) * kPerCode), minimum);
    }
    const float width = high - low;
    if constexpr (bits > 2)
      return withStep(Bf16::fromFloat(width * kPerCode), Bf16::fromFloat(low));
    return withStep(Bf16::fromFloat(width * (kSpan * kPerCode)),
                    Bf16::fromFloat(low + width * kMargin));
  }

 private:
  static constexpr float kPerCode = 1.0f / static_cast<float>((1u << bits) - 1);
  // Of the range: what two bits span, and what they leave out at either end.
  static constexpr float kSpan = 0.85f;
  static constexpr float kMargin = 0.075f;

  CINCH_HD static constexpr StepAndMinimum withStep(uint16_t step, uint16_t minimum) {
    const bool isConstant = Bf16::toFloat(step) < core::kSmallestScale;
    return {isConstant ? uint16_t{0} : step, minimum};
  }
};

}  // namespace cinch::codec
