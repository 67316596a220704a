// The codecs of the product: one line each.
#pragma once

#include <array>
#include <string_view>

#include "kernels/codec/cast.h"
#include "kernels/codec/float8.h"
#include "kernels/codec/hadamard.h"
#include "kernels/codec/sign.h"
#include "kernels/codec/uniform.h"

namespace cinch::codec {

template <BlockCodec... C>
struct CodecList {};

}  // namespace cinch::codec

#ifdef CINCH_CODEC_LIST
// A header that defines codec::AllCodecs instead, to build the backends and their tests for codecs
// from elsewhere: docs/writing-a-codec.md.
#include CINCH_CODEC_LIST
#else

namespace cinch::codec {

using AllCodecs = CodecList<UniformCodec<2>, UniformCodec<3>, UniformCodec<4>, UniformCodec<5>,
                            UniformCodec<6>, UniformCodec<8>, HadamardCodec<2>, HadamardCodec<3>,
                            HadamardCodec<4>, SignCodec, Float8Codec, CastCodec<ElementType::fp32>,
                            CastCodec<ElementType::bf16>, CastCodec<ElementType::fp16>>;

}  // namespace cinch::codec

#endif

namespace cinch::codec {

// What can be said of a codec without its type.
struct CodecInfo {
  const char* name;
  wire::CodecFormat format;
  bool isRotated;
  bool dithers;
};

template <class List>
struct InfoOf;
template <class... C>
struct InfoOf<CodecList<C...>> {
  static constexpr std::array<CodecInfo, sizeof...(C)> kAll = {
      CodecInfo{C::kName, C::kFormat, C::kIsRotated, C::kDithers}...};
};

inline constexpr const auto& kCodecs = InfoOf<AllCodecs>::kAll;

// Whether users may choose it for calls. fp32 makes nothing smaller: it is for tiles among others.
constexpr bool isForCalls(const CodecInfo& codec) {
  return codec.format.bits < 32;
}

// Null where no codec has the name or id.
constexpr const CodecInfo* findCodec(std::string_view name) {
  for (const CodecInfo& codec : kCodecs)
    if (name == codec.name) return &codec;
  return nullptr;
}
constexpr const CodecInfo* findCodec(uint8_t id) {
  for (const CodecInfo& codec : kCodecs)
    if (id == codec.format.id) return &codec;
  return nullptr;
}

// The format of a codec that exists: formatOf("q4").
consteval wire::CodecFormat formatOf(std::string_view name) {
  return findCodec(name)->format;
}

// Returns call.operator()<C>() for the codec of that id in the list, or `unknown`.
template <class Result, class Call, class... C>
constexpr Result withCodecOf(CodecList<C...>, uint8_t id, Result unknown, const Call& call) {
  Result result = unknown;
  (void)((id == C::kFormat.id && ((result = call.template operator()<C>()), true)) || ...);
  return result;
}
template <class Result, class Call>
constexpr Result withCodec(uint8_t id, Result unknown, const Call& call) {
  return withCodecOf(AllCodecs{}, id, unknown, call);
}

namespace detail {
constexpr bool idsAndNamesDiffer() {
  for (size_t i = 0; i < kCodecs.size(); ++i)
    if (findCodec(kCodecs[i].name) != &kCodecs[i] || findCodec(kCodecs[i].format.id) != &kCodecs[i])
      return false;
  return true;
}
}  // namespace detail
static_assert(detail::idsAndNamesDiffer());

}  // namespace cinch::codec
