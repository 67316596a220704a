// 4-bit floats (e2m1) in groups of 32 that share a power of two: MXFP4 of the OCP Microscaling
// Formats specification, version 1.0. docs/wire-format.md, "mxfp4".
#pragma once

#include "kernels/codec/codec.h"
#include "kernels/core/value_range.h"
#include "kernels/element/float_formats.h"

namespace cinch::codec {

// What a group stores: an e8m0 number.
struct GroupExponent {
  uint8_t bits;
};

struct Mxfp4Scale {
  float unit;
  float inverse;

  CINCH_HD constexpr Mxfp4Scale(NoMeta, GroupExponent stored)
      : unit(E8m0::toFloat(stored.bits)),
        // Exact for what an encoder stores: 0 to 252.
        inverse(E8m0::toFloat((254u - stored.bits) & 0xff)) {}

  CINCH_HD constexpr bool isMarked() const { return !isFinite(unit); }

  CINCH_HD constexpr float position(float value) const { return value * inverse; }
  CINCH_HD constexpr uint32_t codeAt(float position) const { return E2m1::fromFloat(position); }
  CINCH_HD constexpr float decode(uint32_t code) const { return E2m1::toFloat(code) * unit; }
};

struct Mxfp4Codec {
  static constexpr const char* kName = "mxfp4";
  static constexpr uint32_t kGroupElems = 32;
  static constexpr wire::CodecFormat kFormat = {codecId(CodecFamily::other, 4, 128), 4,
                                                128 / kGroupElems * sizeof(GroupExponent), 128};
  static constexpr bool kIsRotated = false;
  static constexpr bool kDithers = false;

  using Summary = core::Magnitude;
  using BlockMeta = NoMeta;
  using GroupMeta = GroupExponent;
  using Scale = Mxfp4Scale;

  CINCH_HD static constexpr NoMeta blockMeta(core::Magnitude, uint32_t, Rounding) { return {}; }

  // The power of two that makes the largest magnitude one of 4 to 8; what is above 6 saturates.
  CINCH_HD static constexpr GroupExponent groupMeta(core::Magnitude magnitude, NoMeta) {
    if (!magnitude.isFinite()) return {E8m0::kNan};
    const uint32_t exponent = magnitude.bits >> 23;
    return {static_cast<uint8_t>(exponent > 2 ? exponent - 2 : 0)};
  }
};

}  // namespace cinch::codec
