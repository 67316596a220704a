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

// Metadata of a codec that stores none.
struct NoMeta {};

template <class Meta>
inline constexpr uint32_t storedBytes = std::is_empty_v<Meta> ? 0 : sizeof(Meta);

// clang-format off
template <class C>
concept BlockCodec = requires(typename C::Summary summary, typename C::BlockMeta blockMeta, uint32_t nValues,
                              float value) {
  // Lower case, as users write it: "q4".
  { C::kName } -> std::convertible_to<const char*>;
  { C::kFormat } -> std::convertible_to<wire::CodecFormat>;
  // Whether blocks are rotated before all else and back after decoding (core/rotation.h). What a
  // rotated codec sees of a partial block is whole.
  { C::kIsRotated } -> std::convertible_to<bool>;
  // Whether dithered positions make unbiased codes.
  { C::kDithers } -> std::convertible_to<bool>;

  // Merging is commutative; Summary{} changes nothing. The tree: values at distance 4, 2, 1 of an
  // octet, then octets at distance 8, 4, 2, 1.
  { C::Summary::of(value) } -> std::same_as<typename C::Summary>;
  { summary.mergedWith(summary) } -> std::same_as<typename C::Summary>;

  // What a block stores, from the summary of its `nValues` values, of which there is at least one.
  // NaN or infinity in a summary must give metadata whose scale is marked.
  { C::blockMeta(summary, nValues, Rounding::nearest) } -> std::same_as<typename C::BlockMeta>;

  requires requires(typename C::Scale scale, uint32_t code) {
    typename C::Scale;
    { typename C::Scale(blockMeta) };
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
} && C::kFormat.blockMetaBytes == storedBytes<typename C::BlockMeta>;
// clang-format on

// Ids of the codecs by family, so that a header can be read by eye: bits of a code in the low
// digits. 16 to 31, 52, 53 and 64 to 191 had codecs once; 240 to 254 are for experiments.
enum class CodecFamily : uint8_t { uniform = 0, rotated = 32, other = 48 };

constexpr uint8_t codecId(CodecFamily family, uint32_t bits) {
  return static_cast<uint8_t>(static_cast<uint32_t>(family) + bits);
}

// "q4".
struct CodecName {
  char text[3] = {};

  constexpr CodecName(char family, uint32_t bits)
      : text{family, static_cast<char>('0' + bits), '\0'} {}
};

}  // namespace cinch
