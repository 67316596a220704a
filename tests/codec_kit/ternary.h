// A codec that is not in the product: each value is -level, 0 or +level, for gradients of which
// many are zero. docs/writing-a-codec.md walks through this file.
#pragma once

#include "kernels/codec/codec.h"
#include "kernels/codec/rounding.h"
#include "kernels/core/value_range.h"

namespace cinch::codec {

// What a block's values are summed up as: zeros must not make the level of the others smaller.
struct NonZeroMagnitudes {
  float sum = 0.0f;
  uint32_t count = 0;

  CINCH_HD static constexpr NonZeroMagnitudes of(float value) {
    const float magnitude = floatOfBits(bitsOfFloat(value) & ~kFloatSignBit);
    return {magnitude, magnitude == 0.0f ? 0u : 1u};
  }
  CINCH_HD constexpr NonZeroMagnitudes mergedWith(NonZeroMagnitudes other) const {
    return {sum + other.sum, count + other.count};
  }
  CINCH_HD constexpr float mean() const {
    return sum / static_cast<float>(static_cast<int32_t>(count));
  }
};

// What a block stores: a bf16 number.
struct Level {
  uint16_t bits;
};

// What is stored, made ready.
struct TernaryScale {
  float level;
  float inverse;  // 0 for a block of zeros

  CINCH_HD constexpr explicit TernaryScale(Level stored)
      : level(Bf16::toFloat(stored.bits)),
        inverse(level >= core::kSmallestScale ? 1.0f / level : 0.0f) {}

  CINCH_HD constexpr bool isMarked() const { return !isFinite(level); }

  // -level, 0 and +level are at 0, 1 and 2; what is below half a level becomes 0.
  CINCH_HD constexpr float position(float value) const { return value * inverse + 1.0f; }

  CINCH_HD constexpr uint32_t codeAt(float position) const {
    return roundToCode(clamp(position, 0.0f, 2.0f));
  }

  // No encoder writes 3, but a peer may: it is as good as any number.
  CINCH_HD constexpr float decode(uint32_t code) const {
    return static_cast<float>(static_cast<int32_t>(code) - 1) * level;
  }
};

struct TernaryCodec {
  static constexpr const char* kName = "ternary";
  // Id, bits of a code, bytes of metadata of a block.
  static constexpr wire::CodecFormat kFormat = {240, 2, sizeof(Level)};
  static constexpr bool kIsRotated = false;
  static constexpr bool kDithers = false;  // what lies beyond +-level is cut off, hence biased

  using Summary = NonZeroMagnitudes;
  using BlockMeta = Level;
  using Scale = TernaryScale;

  // The three levels with the least squared error for Gaussian values are 0 and this times their
  // mean magnitude.
  static constexpr float kLevelPerMean = 1.534f;
  // Marks a block that held a NaN or an infinity, or values whose sum is one.
  static constexpr Level kMarked = {Bf16::kCanonicalNan};

  CINCH_HD static constexpr Level blockMeta(NonZeroMagnitudes magnitudes, uint32_t, Rounding) {
    if (!isFinite(magnitudes.sum)) return kMarked;
    if (magnitudes.count == 0) return {0};
    const float level = kLevelPerMean * magnitudes.mean();
    return {level < core::kSmallestScale ? uint16_t{0} : Bf16::fromFloat(level)};
  }
};

}  // namespace cinch::codec
