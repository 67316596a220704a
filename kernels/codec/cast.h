// Floats as they are or rounded to 16 bits: each value by itself, NaN and infinities too. fp32
// loses nothing: it is for tiles that must arrive exactly among others. docs/wire-format.md, "bf16,
// fp16, fp32".
#pragma once

#include <type_traits>

#include "kernels/codec/codec.h"

namespace cinch::codec {

struct NoSummary {
  CINCH_HD static constexpr NoSummary of(float) { return {}; }
  CINCH_HD constexpr NoSummary mergedWith(NoSummary) const { return {}; }
};

template <ElementType type>
struct CastScale {
  CINCH_HD constexpr explicit CastScale(NoMeta) {}

  CINCH_HD constexpr bool isMarked() const { return false; }
  CINCH_HD constexpr float position(float value) const { return value; }
  CINCH_HD constexpr uint32_t codeAt(float position) const {
    return __builtin_bit_cast(Bits, ElementTraits<type>::fromFloat(position));
  }
  CINCH_HD constexpr float decode(uint32_t code) const {
    return ElementTraits<type>::toFloat(__builtin_bit_cast(Storage, static_cast<Bits>(code)));
  }

 private:
  using Storage = typename ElementTraits<type>::Storage;
  using Bits = std::conditional_t<sizeof(Storage) == 4, uint32_t, uint16_t>;
};

template <ElementType type>
struct CastCodec {
  static constexpr bool kIsBf16 = type == ElementType::bf16, kIsFp16 = type == ElementType::fp16;

  static constexpr const char* kName = kIsBf16 ? "bf16" : kIsFp16 ? "fp16" : "fp32";
  static constexpr uint8_t kNumber = kIsBf16 ? 14 : kIsFp16 ? 15 : 13;
  static constexpr wire::CodecFormat kFormat = {
      codecId(CodecFamily::other, kNumber), 8 * sizeof(typename ElementTraits<type>::Storage), 0};
  static constexpr bool kIsRotated = false;
  static constexpr bool kDithers = false;

  using Summary = NoSummary;
  using BlockMeta = NoMeta;
  using Scale = CastScale<type>;

  CINCH_HD static constexpr NoMeta blockMeta(NoSummary, uint32_t, Rounding) { return {}; }
};

}  // namespace cinch::codec
