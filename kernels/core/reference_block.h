// One block through any codec, as plainly as it can be written: the specification of what host and
// device backends compute. Host only.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/codec/codec.h"
#include "kernels/core/random.h"
#include "kernels/core/rotation.h"

namespace cinch::reference {

using Values = std::vector<float>;

// Which block of a shard, and what it is rotated and dithered with.
struct BlockPlace {
  uint32_t firstOctet;  // counted through the shard
  uint32_t rotationKey;
};

inline void butterflies(Values& values) {
  for (size_t distance = 1; distance < values.size(); distance *= 2)
    for (size_t i = 0; i < values.size(); ++i)
      if ((i & distance) == 0) {
        const float a = values[i], b = values[i + distance];
        values[i] = a + b;
        values[i + distance] = a - b;
      }
}

inline void changeSigns(Values& values, const BlockPlace& place) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto octet = place.firstOctet + static_cast<uint32_t>(i / wire::kOctetElems);
    values[i] = core::withSign(values[i], core::octetSigns(place.rotationKey, octet),
                               i % wire::kOctetElems);
  }
}

// What the codec sees of a block.
template <BlockCodec C>
Values codecView(Values values, const BlockPlace& place) {
  if constexpr (C::kIsRotated) {
    values.resize(core::kRotationElems, 0.0f);
    changeSigns(values, place);
    for (float& value : values) value *= core::kRotationScale;
    butterflies(values);
  }
  return values;
}

// The way back, of `nValues` values.
template <BlockCodec C>
Values fromCodecView(Values values, const BlockPlace& place, size_t nValues) {
  if constexpr (C::kIsRotated) {
    butterflies(values);
    changeSigns(values, place);
  }
  values.resize(nValues);
  return values;
}

// Merges a power of two of summaries at distance n/2 .. 1.
template <class Summary>
Summary mergeTree(std::vector<Summary> summaries) {
  for (size_t n = summaries.size() / 2; n > 0; n /= 2)
    for (size_t i = 0; i < n; ++i) summaries[i] = summaries[i].mergedWith(summaries[i + n]);
  return summaries[0];
}

template <BlockCodec C>
typename C::Summary summaryOfOctet(const Values& values, size_t first) {
  std::vector<typename C::Summary> leaves(wire::kOctetElems);
  for (size_t i = 0; i < wire::kOctetElems && first + i < values.size(); ++i)
    leaves[i] = C::Summary::of(values[first + i]);
  return mergeTree(leaves);
}

// Of `nElems` values from `first` on, of which not all need to exist.
template <BlockCodec C>
typename C::Summary summaryOf(const Values& values, size_t first, size_t nElems) {
  std::vector<typename C::Summary> octets;
  for (size_t i = 0; i < nElems; i += wire::kOctetElems)
    octets.push_back(summaryOfOctet<C>(values, first + i));
  return mergeTree(octets);
}

// The metadata of a block as stored.
template <BlockCodec C>
struct BlockMetadata {
  typename C::BlockMeta block;
  typename C::GroupMeta groups[kGroupsOfBlock<C>];

  static BlockMetadata of(const Values& values, Rounding rounding) {
    BlockMetadata meta;
    meta.block = C::blockMeta(summaryOf<C>(values, 0, C::kFormat.blockElems),
                              static_cast<uint32_t>(values.size()), rounding);
    for (uint32_t group = 0; group < kGroupsOfBlock<C>; ++group)
      meta.groups[group] =
          C::groupMeta(summaryOf<C>(values, group * C::kGroupElems, C::kGroupElems), meta.block);
    return meta;
  }

  static BlockMetadata load(const uint8_t* from) {
    BlockMetadata meta;
    std::memcpy(&meta.block, from, storedBytes<typename C::BlockMeta>);
    for (uint32_t group = 0; group < kGroupsOfBlock<C>; ++group)
      std::memcpy(&meta.groups[group], from + groupMetaOffset<C>(group),
                  storedBytes<typename C::GroupMeta>);
    return meta;
  }

  void store(uint8_t* to) const {
    std::memcpy(to, &block, storedBytes<typename C::BlockMeta>);
    for (uint32_t group = 0; group < kGroupsOfBlock<C>; ++group)
      std::memcpy(to + groupMetaOffset<C>(group), &groups[group],
                  storedBytes<typename C::GroupMeta>);
  }

  typename C::Scale scaleOf(size_t index) const {
    return typename C::Scale(block, groups[index / C::kGroupElems]);
  }
};

// Decodes `nValues` values of a block from its metadata and codes.
template <BlockCodec C>
Values decodeBlock(const uint8_t* metaBytes, const uint8_t* codes, const BlockPlace& place,
                   size_t nValues) {
  const auto meta = BlockMetadata<C>::load(metaBytes);
  Values values(C::kIsRotated ? core::kRotationElems : nValues);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto scale = meta.scaleOf(i);
    const uint32_t code = wire::extractCode(C::kFormat, codes, static_cast<uint32_t>(i));
    values[i] = scale.isMarked() ? __builtin_nanf("") : scale.decode(code);
  }
  return fromCodecView<C>(std::move(values), place, nValues);
}

// Codes a block of at least one value. `dither` gives each value's, and is null to round to
// nearest, as codecs that cannot dither always do. Writes metadata, and codes that were all zero.
template <BlockCodec C>
void encodeBlock(const Values& values, const BlockPlace& place, const core::DitherKey* dither,
                 uint8_t* metaBytes, uint8_t* codes) {
  if (!C::kDithers) dither = nullptr;
  const Values seen = codecView<C>(values, place);
  const auto meta = BlockMetadata<C>::of(seen, dither ? Rounding::stochastic : Rounding::nearest);
  meta.store(metaBytes);
  for (size_t i = 0; i < seen.size(); ++i) {
    const auto scale = meta.scaleOf(i);
    if (scale.isMarked()) continue;
    float position = scale.position(seen[i]);
    if (dither) {
      const auto octet = place.firstOctet + static_cast<uint32_t>(i / wire::kOctetElems);
      position += core::ditherOf(dither->ofOctet(octet), i % wire::kOctetElems);
    }
    wire::insertCode(C::kFormat, codes, static_cast<uint32_t>(i), scale.codeAt(position));
  }
}

}  // namespace cinch::reference
