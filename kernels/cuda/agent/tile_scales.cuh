// The metadata of a tile's blocks and groups, as each lane needs it for its own values.
#pragma once

#include "kernels/cuda/agent/tile_summary.cuh"

namespace cinch::cuda {

// Metadata is aligned to its size.
template <class Meta>
__device__ Meta loadMeta(const uint8_t* from) {
  using Word = std::conditional_t<sizeof(Meta) == 4, uint32_t,
                                  std::conditional_t<sizeof(Meta) == 2, uint16_t, uint8_t>>;
  return __builtin_bit_cast(Meta, __ldcs(reinterpret_cast<const Word*>(from)));
}
template <class Meta>
__device__ void storeMeta(const Meta& meta, uint8_t* to) {
  using Word = std::conditional_t<sizeof(Meta) == 4, uint32_t,
                                  std::conditional_t<sizeof(Meta) == 2, uint16_t, uint8_t>>;
  *reinterpret_cast<Word*>(to) = __builtin_bit_cast(Word, meta);
}

// Blocks of C or of a codec that differs only in the size of its blocks: `format` says which.
template <BlockCodec C>
class TileMetadata {
 public:
  using BlockMeta = typename C::BlockMeta;
  using GroupMeta = typename C::GroupMeta;
  static constexpr bool kHasGroups = C::kGroupElems < wire::kTileElems && kGroupsOfBlock<C> > 1;

  // From what the codec sees of a tile. All lanes of the warp make it together.
  template <bool isShort>
  __device__ static TileMetadata of(const TileValues& values, wire::CodecFormat format,
                                    TileExtent extent, Rounding rounding) {
    const TileSummaries<C, isShort> summaries(values, extent);
    const auto ofBlocks = summaries.ofBlocks(format.blockElems);
    TileMetadata made = {};
    const auto makeBlock = [&](uint32_t half) {
      const uint32_t n = valuesOfBlock(format, extent, half);
      return n > 0 ? C::blockMeta(ofBlocks.at[half], n, rounding) : BlockMeta{};
    };
    made.block_[0] = makeBlock(0);
    made.block_[1] = hasTwoBlocks(format) ? makeBlock(1) : made.block_[0];
    if constexpr (kHasGroups)
#pragma unroll
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        const GroupMeta group = C::groupMeta(summaries.ofGroup(slot), made.block_[slot / 2]);
        made.group_[slot] = valuesOfBlock(format, extent, slot / 2) > 0 ? group : GroupMeta{};
      }
    return made;
  }

  __device__ static TileMetadata load(wire::CodecFormat format, const uint8_t* tile) {
    TileMetadata made = {};
    if constexpr (storedBytes < BlockMeta >> 0) {
      made.block_[0] = loadMeta<BlockMeta>(tile + offsetOf(format, 0));
      made.block_[1] =
          hasTwoBlocks(format) ? loadMeta<BlockMeta>(tile + offsetOf(format, 2)) : made.block_[0];
    }
    if constexpr (kHasGroups)
#pragma unroll
      for (uint32_t slot = 0; slot < kSlots; ++slot)
        made.group_[slot] = loadMeta<GroupMeta>(tile + groupOffsetOf(format, slot));
    return made;
  }

  // Writes all that is in front of a tile's codes.
  __device__ void store(wire::CodecFormat format, uint8_t* tile) const {
    if constexpr (storedBytes < BlockMeta >> 0)
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half)
        if ((half == 0 || hasTwoBlocks(format)) && octetOf(2 * half) % format.blockOctets() == 0)
          storeMeta(block_[half], tile + offsetOf(format, 2 * half));
    if constexpr (kHasGroups)
#pragma unroll
      for (uint32_t slot = 0; slot < kSlots; ++slot)
        if (octetOf(slot) % (C::kGroupElems / kOctetElems) == 0)
          storeMeta(group_[slot], tile + groupOffsetOf(format, slot));
    const uint32_t nUsed = format.tileBlocks() * format.blockMetaBytes;
    for (uint32_t i = nUsed + laneOfWarp(); i < format.tileMetaBytes(); i += kWarpThreads)
      tile[i] = 0;
  }

  __device__ typename C::Scale scaleOf(uint32_t slot) const {
    if constexpr (kHasGroups) return typename C::Scale(block_[slot / 2], group_[slot]);
    return typename C::Scale(block_[slot / 2], GroupMeta{});
  }

  // Whether slots 2 and 3 are not of the block of slots 0 and 1.
  __device__ static constexpr bool hasTwoBlocks(wire::CodecFormat format) {
    return format.blockElems == 64;
  }

 private:
  __device__ static uint32_t blockOf(wire::CodecFormat format, uint32_t slot) {
    return octetOf(slot) / format.blockOctets();
  }
  __device__ static uint32_t valuesOfBlock(wire::CodecFormat format, TileExtent extent,
                                           uint32_t half) {
    if (extent.isWhole()) return format.blockElems;
    return extent.among(blockOf(format, 2 * half) * format.blockElems, format.blockElems);
  }
  __device__ static uint32_t offsetOf(wire::CodecFormat format, uint32_t slot) {
    return blockOf(format, slot) * format.blockMetaBytes;
  }
  __device__ static uint32_t groupOffsetOf(wire::CodecFormat format, uint32_t slot) {
    const uint32_t group = octetOf(slot) % format.blockOctets() / (C::kGroupElems / kOctetElems);
    return offsetOf(format, slot) + groupMetaOffset<C>(group);
  }

  BlockMeta block_[2];
  GroupMeta group_[kSlots];
};

// The scales of a lane's values.
template <BlockCodec C, bool hasGroups = TileMetadata<C>::kHasGroups>
class TileScales {
 public:
  __device__ TileScales(const TileMetadata<C>& metadata, wire::CodecFormat format)
      : first_(metadata.scaleOf(0)),
        second_(TileMetadata<C>::hasTwoBlocks(format) ? metadata.scaleOf(2) : first_) {}

  __device__ typename C::Scale ofSlot(uint32_t slot) const { return slot < 2 ? first_ : second_; }
  __device__ bool areMarked() const { return first_.isMarked() || second_.isMarked(); }

 private:
  typename C::Scale first_, second_;
};
template <BlockCodec C>
class TileScales<C, true> {
 public:
  __device__ TileScales(const TileMetadata<C>& metadata, wire::CodecFormat)
      : scale0_(metadata.scaleOf(0)),
        scale1_(metadata.scaleOf(1)),
        scale2_(metadata.scaleOf(2)),
        scale3_(metadata.scaleOf(3)) {}

  // Not an array: that would lie in memory where `slot` is known at run time only.
  __device__ typename C::Scale ofSlot(uint32_t slot) const {
    if (slot < 2) return slot == 0 ? scale0_ : scale1_;
    return slot == 2 ? scale2_ : scale3_;
  }
  __device__ bool areMarked() const {
    return scale0_.isMarked() || scale1_.isMarked() || scale2_.isMarked() || scale3_.isMarked();
  }

 private:
  typename C::Scale scale0_, scale1_, scale2_, scale3_;
};

}  // namespace cinch::cuda
