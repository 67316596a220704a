// Walks the tiles of an encoded shard, piece by piece.
#pragma once

#include <algorithm>

#include "kernels/core/rotation.h"
#include "kernels/host/tile_codec.h"

namespace cinch::host {

struct ShardTile {
  const TileCodec& codec;
  uint64_t offset;  // in bytes from the shard's header
  uint32_t nBytes;
  uint64_t first;    // its first value, counted from the shard's
  uint32_t nValues;  // that exist; 0 in tiles past the shard's values

  TilePlace place(const CallContext& call) const {
    return {static_cast<uint32_t>(first / wire::kOctetElems),
            core::rotationKey(call.slot, call.state->ordinal)};
  }
};

template <class Visit>
inline void forEachTile(const wire::ShardLayout& layout, uint32_t shard, TileCodecs codecs,
                        const Visit& visit) {
  const uint64_t nValues = layout.shardElems(shard);
  for (uint32_t index = 0; index < layout.nPieces(shard); ++index) {
    const wire::Piece piece = layout.piece(shard, index);
    const TileCodec* const codec = findTileCodec(codecs, piece.codec.id);
    if (!codec) continue;
    for (uint64_t tile = 0; tile < piece.nTiles; ++tile) {
      const uint64_t first = (piece.firstTile + tile) * kTileElems;
      const uint64_t left = first < nValues ? nValues - first : 0;
      const uint32_t nBytes = piece.codec.tileBytes();
      visit(ShardTile{*codec, piece.offset + tile * nBytes, nBytes, first,
                      static_cast<uint32_t>(std::min<uint64_t>(left, kTileElems))});
    }
  }
}

}  // namespace cinch::host
