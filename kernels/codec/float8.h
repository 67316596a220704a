// 8-bit floats (e4m3) at the scale of a block's largest magnitude. docs/wire-format.md, "fp8".
#pragma once

#include "kernels/codec/codec.h"
#include "kernels/codec/rounding.h"
#include "kernels/core/value_range.h"
#include "kernels/element/float_formats.h"

namespace cinch::codec {

// What a block stores: a bf16 number.
struct Float8Unit {
  uint16_t bits;
};

struct Float8Scale {
  float unit;
  float inverse;  // 0 for a block of zeros

  CINCH_HD constexpr explicit Float8Scale(Float8Unit stored)
      : unit(Bf16::toFloat(stored.bits)),
        inverse(unit >= core::kSmallestScale ? 1.0f / unit : 0.0f) {}

  CINCH_HD constexpr bool isMarked() const { return !isFinite(unit); }

  CINCH_HD constexpr float position(float value) const { return value * inverse; }
  CINCH_HD constexpr uint32_t codeAt(float position) const { return E4m3::fromFloat(position); }
  CINCH_HD constexpr float decode(uint32_t code) const { return E4m3::toFloat(code) * unit; }
};

struct Float8Codec {
  static constexpr const char* kName = "fp8";
  static constexpr wire::CodecFormat kFormat = {codecId(CodecFamily::other, 8), 8,
                                                sizeof(Float8Unit)};
  static constexpr bool kIsRotated = false;
  // Codes are not equally far apart.
  static constexpr bool kDithers = false;

  using Summary = core::Magnitude;
  using BlockMeta = Float8Unit;
  using Scale = Float8Scale;

  // Marks a block that held a NaN or an infinity.
  static constexpr Float8Unit kMarked = {Bf16::kCanonicalNan};

  CINCH_HD static constexpr Float8Unit blockMeta(core::Magnitude magnitude, uint32_t, Rounding) {
    if (!magnitude.isFinite()) return kMarked;
    const float exact = magnitude.largest() * (1.0f / 448.0f);
    return {exact < core::kSmallestScale ? uint16_t{0} : Bf16::fromFloat(exact)};
  }
};

}  // namespace cinch::codec
