// 16-bit floats: each value rounded by itself, NaN and infinities too. docs/wire-format.md, "bf16
// and fp16".
#pragma once

#include "kernels/codec/codec.h"

namespace cinch::codec {

struct NoSummary {
  CINCH_HD static constexpr NoSummary of(float) { return {}; }
  CINCH_HD constexpr NoSummary mergedWith(NoSummary) const { return {}; }
};

template <ElementType type>
struct CastScale {
  CINCH_HD constexpr CastScale(NoMeta, NoMeta) {}

  CINCH_HD constexpr bool isMarked() const { return false; }
  CINCH_HD constexpr float position(float value) const { return value; }
  CINCH_HD constexpr uint32_t codeAt(float position) const {
    return ElementTraits<type>::fromFloat(position);
  }
  CINCH_HD constexpr float decode(uint32_t code) const {
    return ElementTraits<type>::toFloat(static_cast<uint16_t>(code));
  }
};

template <ElementType type>
struct CastCodec {
  static_assert(type == ElementType::bf16 || type == ElementType::fp16);
  static constexpr bool kIsBf16 = type == ElementType::bf16;

  static constexpr const char* kName = kIsBf16 ? "bf16" : "fp16";
  static constexpr wire::CodecFormat kFormat = {codecId(CodecFamily::other, kIsBf16 ? 14 : 15, 128),
                                                16, 0, 128};
  static constexpr uint32_t kGroupElems = 128;
  static constexpr bool kIsRotated = false;
  static constexpr bool kDithers = false;

  using Summary = NoSummary;
  using BlockMeta = NoMeta;
  using GroupMeta = NoMeta;
  using Scale = CastScale<type>;

  CINCH_HD static constexpr NoMeta blockMeta(NoSummary, uint32_t, Rounding) { return {}; }
  CINCH_HD static constexpr NoMeta groupMeta(NoSummary, NoMeta) { return {}; }
};

}  // namespace cinch::codec
