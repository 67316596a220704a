// One block through a codec, as the specification does it, for the tests of the codecs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/codec/registry.h"
#include "kernels/core/reference_block.h"
#include "tests/unit/kernels/data_sets.h"

namespace cinch::test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kLargest = std::numeric_limits<float>::max();
inline constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

template <BlockCodec C>
struct BlockRun {
  static constexpr wire::CodecFormat kFormat = C::kFormat;

  std::vector<uint8_t> meta = std::vector<uint8_t>(kFormat.blockMetaBytes);
  std::vector<uint8_t> codes = std::vector<uint8_t>(kFormat.blockCodeBytes());
  std::vector<float> decoded;

  // At most a block of values. Compiled once for each codec, not for each test: it is long.
  [[gnu::noinline]] explicit BlockRun(const std::vector<float>& values,
                                      const core::DitherKey* dither = nullptr,
                                      reference::BlockPlace place = {0, 1}) {
    reference::encodeBlock<C>(values, place, dither, meta.data(), codes.data());
    decoded = reference::decodeBlock<C>(meta.data(), codes.data(), place, values.size());
  }

  uint32_t code(uint32_t index) const { return wire::extractCode(kFormat, codes.data(), index); }

  typename C::Scale scale() const { return reference::storedScale<C>(meta.data()); }
};

// Calls visit.operator()<C>() for every codec of the product.
template <class Visit>
void forEachCodec(const Visit& visit) {
  [&]<class... C>(codec::CodecList<C...>) {
    (([&] {
       SCOPED_TRACE(C::kName);
       visit.template operator()<C>();
     }()),
     ...);
  }(codec::AllCodecs{});
}

// Whether a codec codes values one by one, with nothing in common.
template <BlockCodec C>
inline constexpr bool kIsCast = C::kFormat.blockMetaBytes == 0;

inline float largestMagnitude(const std::vector<float>& values) {
  float largest = 0;
  for (float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

}  // namespace cinch::test
