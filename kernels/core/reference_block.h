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

// Of a block, of which not all values need to exist.
template <BlockCodec C>
typename C::Summary summaryOf(const Values& values) {
  std::vector<typename C::Summary> octets;
  for (size_t i = 0; i < wire::kBlockElems; i += wire::kOctetElems)
    octets.push_back(summaryOfOctet<C>(values, i));
  return mergeTree(octets);
}

// What the stored metadata of a block say.
template <BlockCodec C>
typename C::Scale storedScale(const uint8_t* metaBytes) {
  typename C::BlockMeta meta;
  std::memcpy(&meta, metaBytes, storedBytes<typename C::BlockMeta>);
  return typename C::Scale(meta);
}

// Decodes `nValues` values of a block from its metadata and codes.
template <BlockCodec C>
Values decodeBlock(const uint8_t* metaBytes, const uint8_t* codes, const BlockPlace& place,
                   size_t nValues) {
  const auto scale = storedScale<C>(metaBytes);
  Values values(C::kIsRotated ? core::kRotationElems : nValues);
  for (size_t i = 0; i < values.size(); ++i) {
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
  const auto meta = C::blockMeta(summaryOf<C>(seen), static_cast<uint32_t>(seen.size()),
                                 dither ? Rounding::stochastic : Rounding::nearest);
  std::memcpy(metaBytes, &meta, storedBytes<typename C::BlockMeta>);
  const typename C::Scale scale(meta);
  if (scale.isMarked()) return;
  for (size_t i = 0; i < seen.size(); ++i) {
    float position = scale.position(seen[i]);
    if (dither) {
      const auto octet = place.firstOctet + static_cast<uint32_t>(i / wire::kOctetElems);
      position += core::ditherOf(dither->ofOctet(octet), i % wire::kOctetElems);
    }
    wire::insertCode(C::kFormat, codes, static_cast<uint32_t>(i), scale.codeAt(position));
  }
}

}  // namespace cinch::reference
