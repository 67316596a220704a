// The metadata of a tile's blocks.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/codec/codec.h"
#include "kernels/host/block_summary.h"

namespace cinch::host {

template <BlockCodec C>
class TileMetadata {
 public:
  // From what the codec sees of a tile; that of blocks without values is zeros.
  void make(const float* values, uint32_t nValues, Rounding rounding) {
    std::memset(blocks_, 0, sizeof blocks_);
    for (uint32_t first = 0; first < nValues; first += wire::kBlockElems) {
      const uint32_t n = std::min(wire::kBlockElems, nValues - first);
      const auto summary = summaryOf<typename C::Summary>(values + first, n);
      blocks_[first / wire::kBlockElems] = C::blockMeta(summary, n, rounding);
    }
  }

  // Writes the bytes in front of a tile's codes.
  void store(uint8_t* tile) const {
    std::memset(tile, 0, C::kFormat.tileMetaBytes());
    for (uint32_t block = 0; block < wire::kTileBlocks; ++block)
      std::memcpy(tile + block * kStored, &blocks_[block], kStored);
  }

  // What an encoded tile says of a block.
  static typename C::Scale storedScale(const uint8_t* tile, uint32_t block) {
    typename C::BlockMeta meta;
    std::memcpy(&meta, tile + block * kStored, kStored);
    return typename C::Scale(meta);
  }

  typename C::Scale scaleOf(uint32_t block) const { return typename C::Scale(blocks_[block]); }

 private:
  static constexpr uint32_t kStored = storedBytes<typename C::BlockMeta>;

  typename C::BlockMeta blocks_[wire::kTileBlocks];
};

}  // namespace cinch::host
