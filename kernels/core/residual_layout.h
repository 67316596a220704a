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

}  // namespace cinch::core
