// The codec kit: what a codec is. From a type that models BlockCodec follow the reference, the host
// loops, the CUDA kernels, golden vectors, tests, benchmarks and its row in `cinch explain`.
// docs/writing-a-codec.md walks through one.
//
// A codec turns a block of fp32 values into metadata and codes of a fixed number of bits:
//
//   summary   of the values: a leaf for each, merged two by two in a fixed tree
//   metadata  from the summary; what is stored, and all that decoding knows besides the codes
//   scale     the metadata made ready: a code for each value, a value for each code
//
// The kit does the rest: element types, tails and alignment, error feedback, dither, rotation,
// packing of codes, marked blocks, statistics, sums over ranks.
//
// All functions are constexpr-style pure functions for host and device (CINCH_HD). They must give
// the same bits everywhere: plain IEEE fp32 operations, each rounded on its own, in a written
// order.
#pragma once

#include <concepts>
#include <type_traits>

#include "kernels/element/element_traits.h"
#include "kernels/wire/tile_layout.h"

namespace cinch {

// Metadata of a level that a codec does not have.
struct NoMeta {};

template <class Meta>
inline constexpr uint32_t storedBytes = std::is_empty_v<Meta> ? 0 : sizeof(Meta);

// clang-format off
template <class C>
concept BlockCodec = requires(typename C::Summary summary, typename C::BlockMeta blockMeta,
                              typename C::GroupMeta groupMeta, uint32_t nValues, float value) {
  // Lower case, as users write it: "q4".
  { C::kName } -> std::convertible_to<const char*>;
  { C::kFormat } -> std::convertible_to<wire::CodecFormat>;
  // Values that share a scale: a block, or a power of two of at least 8 where blocks have groups.
  { C::kGroupElems } -> std::convertible_to<uint32_t>;
  // Whether blocks are rotated before all else and back after decoding (core/rotation.h); needs
  // blocks of 128. What a rotated codec sees of a partial block is whole.
  { C::kIsRotated } -> std::convertible_to<bool>;
  // Whether dithered positions make unbiased codes.
  { C::kDithers } -> std::convertible_to<bool>;

  // Merging is commutative; Summary{} changes nothing. The tree: values at distance 4, 2, 1 of an
  // octet, then octets at distance n/2 .. 1, up to a group, and on to the block.
  { C::Summary::of(value) } -> std::same_as<typename C::Summary>;
  { summary.mergedWith(summary) } -> std::same_as<typename C::Summary>;

  // What a block stores, from the summary of its `nValues` values, of which there is at least one;
  // and what each of its groups stores, from the group's own summary. A group without values has an
  // empty summary. NaN or infinity in a summary must give metadata whose scale is marked.
  { C::blockMeta(summary, nValues, Rounding::nearest) } -> std::same_as<typename C::BlockMeta>;
  { C::groupMeta(summary, blockMeta) } -> std::same_as<typename C::GroupMeta>;

  requires requires(typename C::Scale scale, uint32_t code) {
    typename C::Scale;
    { typename C::Scale(blockMeta, groupMeta) };
    // True: all values decode to NaN, and all codes are 0. Any bytes may come from a peer; decode()
    // of any code must then be defined.
    { scale.isMarked() } -> std::same_as<bool>;
    // Where a value lies, in units of the distance between codes, so that a dither uniform on
    // (-1/2, 1/2) makes the rounding stochastic.
    { scale.position(value) } -> std::same_as<float>;
    // The code nearest to a position. Below 2^bits for any position, NaN too.
    { scale.codeAt(value) } -> std::same_as<uint32_t>;
    { scale.decode(code) } -> std::same_as<float>;
  };
} && C::kFormat.blockMetaBytes == storedBytes<typename C::BlockMeta> +
         C::kFormat.blockElems / C::kGroupElems * storedBytes<typename C::GroupMeta>;
// clang-format on

// Ids of the codecs by family, so that a header can be read by eye: bits of a code in the low
// digits; blocks of 64 from 64 on, of 256 from 128 on. 240 to 254 are for experiments.
enum class CodecFamily : uint8_t { uniform = 0, clipped = 16, rotated = 32, other = 48 };

constexpr uint8_t codecId(CodecFamily family, uint32_t bits, uint32_t blockElems) {
  const uint32_t ofBlock = blockElems == 64 ? 64 : blockElems == 256 ? 128 : 0;
  return static_cast<uint8_t>(static_cast<uint32_t>(family) + bits + ofBlock);
}

// "q4", or "q4-64" where a block has not the usual 128 values.
struct CodecName {
  char text[8] = {};

  constexpr CodecName(char family, uint32_t bits, uint32_t blockElems) {
    text[0] = family;
    text[1] = static_cast<char>('0' + bits);
    const char* suffix = blockElems == 64 ? "-64" : blockElems == 256 ? "-256" : "";
    for (int i = 0; suffix[i]; ++i) text[2 + i] = suffix[i];
  }
};

// Groups of a block.
template <BlockCodec C>
inline constexpr uint32_t kGroupsOfBlock = C::kFormat.blockElems / C::kGroupElems;

// Where the metadata of group `group` lies in that of its block, which the block's own opens.
template <BlockCodec C>
CINCH_HD constexpr uint32_t groupMetaOffset(uint32_t group) {
  return storedBytes<typename C::BlockMeta> + group * storedBytes<typename C::GroupMeta>;
}

}  // namespace cinch
