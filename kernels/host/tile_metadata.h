// The metadata of a tile's blocks and groups.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/codec/codec.h"
#include "kernels/host/block_summary.h"

namespace cinch::host {

template <BlockCodec C>
class TileMetadata {
 public:
  static constexpr uint32_t kBlockElems = C::kFormat.blockElems;

  // From what the codec sees of a tile; that of blocks without values is zeros.
  void make(const float* values, uint32_t nValues, Rounding rounding) {
    std::memset(blocks_, 0, sizeof blocks_);
    std::memset(groups_, 0, sizeof groups_);
    for (uint32_t block = 0; block * kBlockElems < nValues; ++block)
      makeBlock(block, values + block * kBlockElems,
                std::min(kBlockElems, nValues - block * kBlockElems), rounding);
  }

  // Writes the bytes in front of a tile's codes.
  void store(uint8_t* tile) const {
    std::memset(tile, 0, C::kFormat.tileMetaBytes());
    for (uint32_t block = 0; block < C::kFormat.tileBlocks(); ++block) {
      uint8_t* to = tile + block * C::kFormat.blockMetaBytes;
      std::memcpy(to, &blocks_[block], storedBytes<typename C::BlockMeta>);
      for (uint32_t group = 0; group < kGroups; ++group)
        std::memcpy(to + groupMetaOffset<C>(group), &groups_[block * kGroups + group],
                    storedBytes<typename C::GroupMeta>);
    }
  }

  // What an encoded tile says of its group `group`.
  static typename C::Scale storedScale(const uint8_t* tile, uint32_t group) {
    const uint8_t* from = tile + group / kGroups * C::kFormat.blockMetaBytes;
    typename C::BlockMeta ofBlock;
    typename C::GroupMeta ofGroup;
    std::memcpy(&ofBlock, from, storedBytes<typename C::BlockMeta>);
    std::memcpy(&ofGroup, from + groupMetaOffset<C>(group % kGroups),
                storedBytes<typename C::GroupMeta>);
    return typename C::Scale(ofBlock, ofGroup);
  }

  // Of group `group` of the tile.
  typename C::Scale scaleOf(uint32_t group) const {
    return typename C::Scale(blocks_[group / kGroups], groups_[group]);
  }

 private:
  static constexpr uint32_t kGroups = kGroupsOfBlock<C>;
  using Summary = typename C::Summary;

  void makeBlock(uint32_t block, const float* values, uint32_t nValues, Rounding rounding) {
    blocks_[block] =
        C::blockMeta(summaryOf<Summary, kBlockElems>(values, nValues), nValues, rounding);
    for (uint32_t group = 0; group < kGroups; ++group) {
      const uint32_t first = group * C::kGroupElems;
      const uint32_t nInGroup = first < nValues ? nValues - first : 0;
      groups_[block * kGroups + group] = C::groupMeta(
          summaryOf<Summary, C::kGroupElems>(values + first, nInGroup), blocks_[block]);
    }
  }

  typename C::BlockMeta blocks_[C::kFormat.tileBlocks()];
  typename C::GroupMeta groups_[wire::kTileElems / C::kGroupElems];
};

}  // namespace cinch::host
