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

  CINCH_HD constexpr SignScale(MeanMagnitude stored, NoMeta) : mean(Bf16::toFloat(stored.bits)) {}

  CINCH_HD constexpr bool isMarked() const { return !isFinite(mean); }

  // There is nothing between two codes.
  CINCH_HD constexpr float position(float value) const { return value; }
  CINCH_HD constexpr uint32_t codeAt(float position) const { return position >= 0.0f ? 1 : 0; }
  CINCH_HD constexpr float decode(uint32_t code) const { return code ? mean : -mean; }
};

template <uint32_t blockElems = 128>
struct SignCodec {
  static constexpr const char* kName = blockElems == 64    ? "sign-64"
                                       : blockElems == 256 ? "sign-256"
                                                           : "sign";
  static constexpr wire::CodecFormat kFormat = {codecId(CodecFamily::other, 1, blockElems), 1,
                                                sizeof(MeanMagnitude), blockElems};
  static constexpr uint32_t kGroupElems = blockElems;
  static constexpr bool kIsRotated = false;
  static constexpr bool kDithers = false;

  using Summary = MagnitudeSum;
  using BlockMeta = MeanMagnitude;
  using GroupMeta = NoMeta;
  using Scale = SignScale;

  // Marks a block that held a NaN or an infinity, or values whose sum is one.
  static constexpr MeanMagnitude kMarked = {Bf16::kCanonicalNan};

  CINCH_HD static constexpr MeanMagnitude blockMeta(MagnitudeSum magnitudes, uint32_t nValues,
                                                    Rounding) {
    if (!magnitudes.isFinite()) return kMarked;
    return {Bf16::fromFloat(magnitudes.sum / static_cast<float>(static_cast<int32_t>(nValues)))};
  }
  CINCH_HD static constexpr NoMeta groupMeta(MagnitudeSum, MeanMagnitude) { return {}; }
};

}  // namespace cinch::codec
