// Where residuals lie: fp32 and bf16 value by value; int8 as tiles of the codec "q8", in the order
// of the layout's tiles.
#pragma once

#include "kernels/codec/uniform.h"
#include "kernels/device_table.h"

namespace cinch::core {

using ResidualTileCodec = codec::UniformCodec<8>;

// Bytes of a run of values that begins at a tile.
CINCH_HD constexpr uint64_t residualBytes(ResidualType type, uint64_t nValues) {
  switch (type) {
    case ResidualType::fp32:
      return nValues * 4;
    case ResidualType::bf16:
      return nValues * 2;
    default:
      return wire::ShardLayout::tilesOf(nValues) * ResidualTileCodec::kFormat.tileBytes();
  }
}

// Bytes of a whole bucket's.
CINCH_HD constexpr uint64_t residualBytes(ResidualType type, const wire::ShardLayout& layout) {
  if (type != ResidualType::int8) return residualBytes(type, layout.count);
  return layout.tiles() * ResidualTileCodec::kFormat.tileBytes();
}

// Where a shard's part begins in a whole bucket's.
CINCH_HD constexpr uint64_t residualOffset(ResidualType type, const wire::ShardLayout& layout,
                                           uint32_t shard) {
  if (type != ResidualType::int8) return residualBytes(type, layout.firstElem(shard));
  return layout.firstTile(shard) * ResidualTileCodec::kFormat.tileBytes();
}

// Value `index` of a run that begins at a tile; NaN in a marked block.
template <ResidualType type>
CINCH_HD inline float residualAt(const void* residual, uint64_t index) {
  using Codec = ResidualTileCodec;
  using Bf16 = ElementTraits<ElementType::bf16>;
  if constexpr (type == ResidualType::fp32) {
    return static_cast<const float*>(residual)[index];
  } else if constexpr (type == ResidualType::bf16) {
    return Bf16::toFloat(static_cast<const uint16_t*>(residual)[index]);
  } else {
    const auto* const tiles = static_cast<const uint8_t*>(residual);
    const uint64_t block = index / wire::kBlockElems;
    const uint8_t* const codes = tiles + wire::codesOffset(Codec::kFormat, block);
    const auto* const meta =
        reinterpret_cast<const uint16_t*>(tiles + wire::metaOffset(Codec::kFormat, block));
    const uint8_t code = codes[index % wire::kBlockElems];  // whatever the scale may be
    const Codec::Scale scale({meta[0], meta[1]});
    return scale.isMarked() ? __builtin_nanf("") : scale.decode(code);
  }
}

}  // namespace cinch::core
