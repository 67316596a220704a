// 4-bit floats (e2m1) in groups of 16 that share an e4m3 number, which is relative to an fp32
// number of the block. docs/wire-format.md, "nvfp4".
#pragma once

#include "kernels/codec/codec.h"
#include "kernels/core/value_range.h"
#include "kernels/element/float_formats.h"

namespace cinch::codec {

// What a block stores: an fp32 number.
struct BlockUnit {
  float value;
};
// What a group stores: an e4m3 number.
struct GroupFactor {
  uint8_t bits;
};

struct Nvfp4Scale {
  float unit;
  float inverse;  // 0 for a group of zeros

  CINCH_HD constexpr Nvfp4Scale(BlockUnit block, GroupFactor group)
      : unit(E4m3::toFloat(group.bits) * block.value),
        inverse(unit >= core::kSmallestScale ? 1.0f / unit : 0.0f) {}

  CINCH_HD constexpr bool isMarked() const { return !isFinite(unit); }

  CINCH_HD constexpr float position(float value) const { return value * inverse; }
  CINCH_HD constexpr uint32_t codeAt(float position) const { return E2m1::fromFloat(position); }
  CINCH_HD constexpr float decode(uint32_t code) const { return E2m1::toFloat(code) * unit; }
};

struct Nvfp4Codec {
  static constexpr const char* kName = "nvfp4";
  static constexpr uint32_t kGroupElems = 16;
  static constexpr wire::CodecFormat kFormat = {
      codecId(CodecFamily::other, 5, 128), 4,
      sizeof(BlockUnit) + 128 / kGroupElems * sizeof(GroupFactor), 128};
  static constexpr bool kIsRotated = false;
  static constexpr bool kDithers = false;

  using Summary = core::Magnitude;
  using BlockMeta = BlockUnit;
  using GroupMeta = GroupFactor;
  using Scale = Nvfp4Scale;

  // Marks a block that held a NaN or an infinity.
  static constexpr BlockUnit kMarked = {floatOfBits(0x7fc00000)};

  // The block's largest magnitude becomes 448 * 6, the largest of both formats.
  CINCH_HD static constexpr BlockUnit blockMeta(core::Magnitude magnitude, uint32_t, Rounding) {
    if (!magnitude.isFinite()) return kMarked;
    const float exact = magnitude.largest() * (1.0f / 2688.0f);
    return {exact < core::kSmallestScale ? 0.0f : exact};
  }

  // The group's largest magnitude becomes 6, as nearly as an e4m3 number can make it.
  CINCH_HD static constexpr GroupFactor groupMeta(core::Magnitude magnitude, BlockUnit block) {
    if (!(block.value >= core::kSmallestScale)) return {0};
    const float ofUnit = magnitude.largest() * (1.0f / block.value);
    return {static_cast<uint8_t>(E4m3::fromFloat(ofUnit * (1.0f / 6.0f)))};
  }
};

}  // namespace cinch::codec
