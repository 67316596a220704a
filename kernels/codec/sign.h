// The sign of each value, and the mean magnitude of its block. docs/wire-format.md, "sign".
#pragma once

#include "kernels/codec/codec.h"
#include "kernels/codec/magnitude_sum.h"
#include "kernels/codec/rounding.h"

namespace cinch::codec {

// What a block stores: a bf16 number.
struct MeanMagnitude {
  uint16_t bits;
};

struct SignScale {
  float mean;

  CINCH_HD constexpr explicit SignScale(MeanMagnitude stored) : mean(Bf16::toFloat(stored.bits)) {}

  CINCH_HD constexpr bool isMarked() const { return !isFinite(mean); }

  // There is nothing between two codes.
  CINCH_HD constexpr float position(float value) const { return value; }
  CINCH_HD constexpr uint32_t codeAt(float position) const { return position >= 0.0f ? 1 : 0; }
  CINCH_HD constexpr float decode(uint32_t code) const { return code ? mean : -mean; }
};

struct SignCodec {
  static constexpr const char* kName = "sign";
  static constexpr wire::CodecFormat kFormat = {codecId(CodecFamily::other, 1), 1,
                                                sizeof(MeanMagnitude)};
  static constexpr bool kIsRotated = false;
  static constexpr bool kDithers = false;

  using Summary = MagnitudeSum;
  using BlockMeta = MeanMagnitude;
  using Scale = SignScale;

  // Marks a block that held a NaN or an infinity, or values whose sum is one.
  static constexpr MeanMagnitude kMarked = {Bf16::kCanonicalNan};

  CINCH_HD static constexpr MeanMagnitude blockMeta(MagnitudeSum magnitudes, uint32_t nValues,
                                                    Rounding) {
    if (!magnitudes.isFinite()) return kMarked;
    return {Bf16::fromFloat(magnitudes.sum / static_cast<float>(static_cast<int32_t>(nValues)))};
  }
};

}  // namespace cinch::codec
