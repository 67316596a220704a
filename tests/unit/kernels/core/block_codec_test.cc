#include "kernels/core/block_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/kernels/support.h"

namespace cinch::core {
namespace {

using wire::Codec;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();

ValueRange rangeOf(const std::vector<float>& values) {
  ValueRange range;
  for (float value : values) range.include(value);
  return range;
}

TEST(OrderedBits, KeepTheOrderOfFloats) {
  const float ascending[] = {-kInfinity, -kLargest, -1.0f, -1e-45f,  -0.0f,    0.0f,
                             1e-45f,     1.0f,      2.0f,  kLargest, kInfinity};
  for (size_t i = 1; i < std::size(ascending); ++i)
    EXPECT_LT(orderedBits(ascending[i - 1]), orderedBits(ascending[i])) << i;
  for (float value : ascending)
    EXPECT_EQ(bitsOfFloat(floatOfOrderedBits(orderedBits(value))), bitsOfFloat(value));
}

TEST(PairOf, KnownValues) {
  // 0 to 15 at 4 bits: step 1, minimum 0.
  EXPECT_EQ(pairOf(Codec::q4, rangeOf({0, 15, 3})).step, 0x3f80);
  EXPECT_EQ(pairOf(Codec::q4, rangeOf({0, 15, 3})).minimum, 0);
  // -1.5 to 1.5 at 2 bits: step 1, minimum -1.5.
  EXPECT_EQ(pairOf(Codec::q2, rangeOf({-1.5f, 1.5f})).step, 0x3f80);
  EXPECT_EQ(pairOf(Codec::q2, rangeOf({-1.5f, 1.5f})).minimum, 0xbfc0);
}

TEST(PairOf, NegativeZeroIsZero) {
  for (Codec codec : test::kCodecs) {
    EXPECT_EQ(pairOf(codec, rangeOf({-0.0f})).minimum, 0);
    EXPECT_EQ(pairOf(codec, rangeOf({-0.0f, 0.0f})).step, 0);
    EXPECT_EQ(pairOf(codec, rangeOf({-0.0f, 5.0f})).minimum, 0);
  }
}

TEST(PairOf, MarksWhatIsNotFinite) {
  const float negativeNan = floatOfBits(0xffc00001u);
  for (float special : {kNan, negativeNan, kInfinity, -kInfinity})
    for (Codec codec : test::kCodecs) {
      const StoredPair pair = pairOf(codec, rangeOf({1.0f, special, -1.0f}));
      EXPECT_EQ(pair.step, 0x7fc0);
      EXPECT_EQ(pair.minimum, 0);
      EXPECT_TRUE(BlockScale(codec, pair).isMarked());
    }
}

TEST(PairOf, ConstantBlocksHaveNoStep) {
  for (float value : {1.0f, -3.7e20f, 1e-40f, 0.1f}) {
    const StoredPair pair = pairOf(Codec::q8, rangeOf({value, value}));
    EXPECT_EQ(pair.step, 0);
    const BlockScale scale(Codec::q8, pair);
    EXPECT_EQ(scale.encode(value), 0u);
    // The second term is half of bf16's smallest subnormal.
    EXPECT_NEAR(scale.decode(0), value, std::abs(value) / 256 + 0x1p-134f);
  }
}

TEST(PairOf, SmallestStepIsUsed) {
  const float range = kSmallestStep * 15;
  EXPECT_EQ(Bf16::toFloat(pairOf(Codec::q4, rangeOf({0, range})).step), kSmallestStep);
  EXPECT_EQ(pairOf(Codec::q4, rangeOf({0, range * 0.99f})).step, 0);
}

TEST(BlockScale, NothingOverflows) {
  const std::vector<std::vector<float>> blocks = {{-kLargest, kLargest},
                                                  {kLargest, kLargest * 0.5f},
                                                  {-kLargest, 0.0f, 1.0f},
                                                  {0x1p126f, -0x1p126f}};
  for (const auto& values : blocks)
    for (Codec codec : test::kCodecs) {
      const BlockScale scale(codec, pairOf(codec, rangeOf(values)));
      ASSERT_FALSE(scale.isMarked());
      for (uint32_t code = 0; code <= largestCode(codec); ++code)
        ASSERT_TRUE(std::isfinite(scale.decode(code)));
      for (float value : values) {
        const uint32_t code = scale.encode(value);
        ASSERT_LE(code, largestCode(codec));
        ASSERT_TRUE(std::isfinite(nextResidual(0, value, scale.decode(code))));
      }
      EXPECT_LE(scale.encode(-kLargest), scale.encode(kLargest));
    }
}

// Inside the range the error is half a step; outside it, what rounding the pair has cut off.
TEST(BlockScale, ErrorIsBounded) {
  for (uint32_t seed = 0; seed < 3000; ++seed)
    for (Codec codec : test::kCodecs) {
      std::vector<float> values =
          test::gaussian(128, seed, std::ldexp(1.0f, static_cast<int>(seed % 200) - 100));
      const float offset = seed % 3 ? 0 : 10 * values[0];
      for (float& value : values) value += offset;
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      const BlockScale scale(codec, pairOf(codec, rangeOf(values)));
      const float pairSlack = (std::abs(*low) + (*high - *low)) / 256;
      for (float value : values) {
        const float decoded = scale.decode(scale.encode(value));
        const float top = scale.decode(largestCode(codec));
        const bool isInside = value >= scale.minimum && value <= top;
        const float rounding = std::max(std::abs(value), std::abs(scale.minimum)) * 1e-6f;
        ASSERT_LE(std::abs(value - decoded),
                  scale.step / 2 + rounding + (isInside ? 0.0f : pairSlack))
            << seed << " " << value;
      }
    }
}

TEST(BlockScale, TiesGoToTheEvenCode) {
  const BlockScale scale(Codec::q4, {0x3f80, 0});
  EXPECT_EQ(scale.encode(0.5f), 0u);
  EXPECT_EQ(scale.encode(1.5f), 2u);
  EXPECT_EQ(scale.encode(2.5f), 2u);
  EXPECT_EQ(scale.encode(14.5f), 14u);
  EXPECT_EQ(scale.encode(15.5f), 15u);
  EXPECT_EQ(scale.encode(1e30f), 15u);
  EXPECT_EQ(scale.encode(-1e30f), 0u);
}

// What was decoded codes to the same bytes again, wherever both ends of the range were used.
TEST(BlockScale, DecodedValuesAreStable) {
  int nStable = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed)
    for (Codec codec : test::kCodecs) {
      const std::vector<float> values = test::gaussian(128, seed);
      const StoredPair pair = pairOf(codec, rangeOf(values));
      const BlockScale scale(codec, pair);
      std::vector<float> decoded;
      std::vector<uint32_t> codes;
      for (float value : values) {
        codes.push_back(scale.encode(value));
        decoded.push_back(scale.decode(codes.back()));
      }
      const auto [low, high] = std::minmax_element(codes.begin(), codes.end());
      if (*low != 0 || *high != largestCode(codec)) continue;
      ++nStable;
      const StoredPair again = pairOf(codec, rangeOf(decoded));
      ASSERT_EQ(again.step, pair.step);
      ASSERT_EQ(again.minimum, pair.minimum);
      for (size_t i = 0; i < decoded.size(); ++i)
        ASSERT_EQ(BlockScale(codec, again).encode(decoded[i]), codes[i]);
    }
  EXPECT_GT(nStable, 2000);
}

TEST(BlockScale, PairsThatNoEncoderMakesAreHarmless) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    for (const StoredPair pair : {StoredPair{half, 0x3f80}, StoredPair{0x3f80, half}}) {
      const BlockScale scale(Codec::q8, pair);
      ASSERT_EQ(scale.isMarked(), (half & 0x7fff) >= 0x7f80);
      ASSERT_TRUE(scale.isMarked() || !std::isnan(scale.decode(255)));
    }
  }
}

TEST(NextResidual, StaysFinite) {
  EXPECT_EQ(nextResidual(1.0f, 3.0f, 2.5f), 1.5f);
  EXPECT_EQ(nextResidual(kLargest, kLargest, 0.0f), 0.0f);
  EXPECT_EQ(nextResidual(0.0f, kNan, 0.0f), 0.0f);
  EXPECT_EQ(nextResidual(0.0f, 1.0f, -kInfinity), 0.0f);
}

}  // namespace
}  // namespace cinch::core
