// The metadata of a tile's blocks: a block is the row of four lanes that hold its values.
#pragma once

#include "kernels/cuda/agent/tile_summary.cuh"

namespace cinch::cuda {

// The metadata of this lane's block.
template <BlockCodec C>
class BlockMetadata {
 public:
  // From what the codec sees of a tile. All lanes of the warp make it together.
  template <bool isShort>
  __device__ static BlockMetadata of(const TileValues& values, TileExtent extent,
                                     Rounding rounding) {
    const auto summary = blockSummary<C, isShort>(values, extent);
    const uint32_t nValues = extent.among(blockOfLane() * wire::kBlockElems, wire::kBlockElems);
    BlockMetadata made = {};
    if (nValues > 0) made.stored_ = C::blockMeta(summary, nValues, rounding);
    return made;
  }

  __device__ static BlockMetadata load(const uint8_t* tile) {
    BlockMetadata made = {};
    if constexpr (kBytes > 0)
      made.stored_ =
          __builtin_bit_cast(Stored, __ldcs(reinterpret_cast<const Word*>(tile) + blockOfLane()));
    return made;
  }

  // The lanes of the warp together write all that is in front of a tile's codes.
  __device__ void store(uint8_t* tile) const {
    if constexpr (kBytes > 0)
      if (laneOfWarp() % kLanesPerRow == 0)
        reinterpret_cast<Word*>(tile)[blockOfLane()] = __builtin_bit_cast(Word, stored_);
    constexpr uint32_t kUsed = wire::kTileBlocks * kBytes;
    if constexpr (kUsed < C::kFormat.tileMetaBytes())
      for (uint32_t i = kUsed + laneOfWarp(); i < C::kFormat.tileMetaBytes(); i += kWarpThreads)
        tile[i] = 0;
  }

  __device__ typename C::Scale scale() const { return typename C::Scale(stored_); }

 private:
  using Stored = typename C::BlockMeta;
  static constexpr uint32_t kBytes = storedBytes<Stored>;
  // Metadata is aligned to its size.
  using Word =
      std::conditional_t<kBytes == 4, uint32_t, std::conditional_t<kBytes == 2, uint16_t, uint8_t>>;

  __device__ static uint32_t blockOfLane() { return laneOfWarp() / kLanesPerRow; }

  Stored stored_;
};

}  // namespace cinch::cuda
