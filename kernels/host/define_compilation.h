// Defines one of the compilations that compilations.h declares.
#pragma once

#include "kernels/codec/registry.h"
#include "kernels/host/compilations.h"
#include "kernels/host/shard_loops.h"

// With a sanitizer's checks, code that is all in one function takes compilers minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CINCH_FLATTEN
#else
#define CINCH_FLATTEN gnu::flatten
#endif

// CINCH_DEFINE_COMPILATION(name, Encoder, Decoder, target attribute and comma): Encoder<C> and
// Decoder<C> have the functions of a TileCodec.
//
// `flatten` pulls all of a function into it, for this target alone, so that no code with wider
// instructions can end up in a function that others share.
#define CINCH_DEFINE_COMPILATION(name, Encoder, Decoder, ...)                   \
  namespace cinch::host::name {                                                 \
  template <BlockCodec C>                                                       \
  [[__VA_ARGS__ CINCH_FLATTEN]] void encodeTile(const TileCoding& coding) {     \
    Encoder<C>::encode(coding);                                                 \
  }                                                                             \
  template <BlockCodec C>                                                       \
  [[__VA_ARGS__ CINCH_FLATTEN]] void decodeTile(const TileDecoding& decoding) { \
    Decoder<C>::decode(decoding);                                               \
  }                                                                             \
  template <BlockCodec C>                                                       \
  [[__VA_ARGS__ CINCH_FLATTEN]] void sumTile(const TileSumming& summing) {      \
    Decoder<C>::sum(summing);                                                   \
  }                                                                             \
  template <class List>                                                         \
  struct CodecTable;                                                            \
  template <BlockCodec... C>                                                    \
  struct CodecTable<codec::CodecList<C...>> {                                   \
    static constexpr TileCodec kAll[] = {                                       \
        {C::kFormat.id, encodeTile<C>, decodeTile<C>, sumTile<C>}...};          \
  };                                                                            \
  constexpr TileCodecs kCodecs = CodecTable<codec::AllCodecs>::kAll;            \
  [[__VA_ARGS__ CINCH_FLATTEN]] void encodeShards(const EncodeLaunch& launch) { \
    host::encodeShards(launch, kCodecs);                                        \
  }                                                                             \
  [[__VA_ARGS__ CINCH_FLATTEN]] void reduceShard(const ReduceLaunch& launch) {  \
    host::reduceShard(launch, kCodecs);                                         \
  }                                                                             \
  [[__VA_ARGS__ CINCH_FLATTEN]] void decodeShards(const DecodeLaunch& launch) { \
    host::decodeShards(launch, kCodecs);                                        \
  }                                                                             \
  }
