#include "kernels/codec/uniform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/kernels/data_sets.h"

namespace cinch::codec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();

// Runs check.operator()<C>() for every number of bits.
template <class Check>
void forEachWidth(const Check& check) {
  [&]<uint32_t... bits>(std::integer_sequence<uint32_t, bits...>) {
    (check.template operator()<UniformCodec<bits>>(), ...);
  }
  (std::integer_sequence<uint32_t, 2, 3, 4, 5, 6, 8>{});
}

template <class C>
constexpr uint32_t kTopCode = (1u << C::kFormat.bits) - 1;

template <class C>
StepAndMinimum pairOf(const std::vector<float>& values, Rounding rounding = Rounding::nearest) {
  core::ValueRange range;
  for (float value : values) range = range.mergedWith(core::ValueRange::of(value));
  return C::blockMeta(range, static_cast<uint32_t>(values.size()), rounding);
}

template <class C>
typename C::Scale scaleOf(const std::vector<float>& values, Rounding rounding = Rounding::nearest) {
  return typename C::Scale(pairOf<C>(values, rounding));
}

template <class Scale>
uint32_t encode(const Scale& scale, float value) {
  return scale.codeAt(scale.position(value));
}

TEST(UniformPair, KnownValues) {
  // 0 to 15 at 4 bits: step 1, minimum 0.
  EXPECT_EQ(pairOf<UniformCodec<4>>({0, 15, 3}).step, 0x3f80);
  EXPECT_EQ(pairOf<UniformCodec<4>>({0, 15, 3}).minimum, 0);
  // -1.5 to 1.5 at 2 bits: .85 of that, -1.275 to 1.275. Dithered, all of it.
  EXPECT_EQ(pairOf<UniformCodec<2>>({-1.5f, 1.5f}).step, Bf16::fromFloat(0.85f));
  EXPECT_EQ(pairOf<UniformCodec<2>>({-1.5f, 1.5f}).minimum, Bf16::fromFloat(-1.275f));
  EXPECT_EQ(pairOf<UniformCodec<2>>({-1.5f, 1.5f}, Rounding::stochastic).step, 0x3f80);
  EXPECT_EQ(pairOf<UniformCodec<2>>({-1.5f, 1.5f}, Rounding::stochastic).minimum, 0xbfc0);
  // -7 to 24 at 5 bits, the same whatever the size of the block.
  EXPECT_EQ(pairOf<UniformCodec<5>>({-7.0f, 24.0f}).step, 0x3f80);
  EXPECT_EQ(pairOf<UniformCodec<5>>({-7.0f, 24.0f}).minimum, 0xc0e0);
}

TEST(UniformPair, NegativeZeroIsZero) {
  forEachWidth([]<class C>() {
    EXPECT_EQ(pairOf<C>({-0.0f}).minimum, 0);
    EXPECT_EQ(pairOf<C>({-0.0f, 0.0f}).step, 0);
    EXPECT_EQ(pairOf<C>({-0.0f, 5.0f}).minimum, pairOf<C>({0.0f, 5.0f}).minimum);
    EXPECT_EQ(pairOf<C>({-0.0f, 5.0f}, Rounding::stochastic).minimum, 0);
    if (C::kFormat.bits > 2) {
      EXPECT_EQ(pairOf<C>({-0.0f, 5.0f}).minimum, 0);
    }
  });
}

TEST(UniformPair, MarksWhatIsNotFinite) {
  for (float special : {kNan, floatOfBits(0xffc00001u), kInfinity, -kInfinity})
    for (Rounding rounding : {Rounding::nearest, Rounding::stochastic})
      forEachWidth([&]<class C>() {
        const StepAndMinimum pair = pairOf<C>({1.0f, special, -1.0f}, rounding);
        EXPECT_EQ(pair.step, 0x7fc0);
        EXPECT_EQ(pair.minimum, 0);
        EXPECT_TRUE(typename C::Scale(pair).isMarked());
      });
}

TEST(UniformPair, ConstantBlocksHaveNoStep) {
  for (float value : {1.0f, -3.7e20f, 1e-40f, 0.1f}) {
    EXPECT_EQ(pairOf<UniformCodec<8>>({value, value}).step, 0);
    const auto scale = scaleOf<UniformCodec<8>>({value, value});
    EXPECT_EQ(encode(scale, value), 0u);
    // The second term is half of bf16's smallest subnormal.
    EXPECT_NEAR(scale.decode(0), value, std::abs(value) / 256 + 0x1p-134f);
  }
}

TEST(UniformPair, SmallestStepIsUsed) {
  const float range = core::kSmallestScale * 15;
  EXPECT_EQ(Bf16::toFloat(pairOf<UniformCodec<4>>({0, range}).step), core::kSmallestScale);
  EXPECT_EQ(pairOf<UniformCodec<4>>({0, range * 0.99f}).step, 0);
}

// Where dither is added no value may lie beyond the codes: cutting it would be a bias.
TEST(UniformPair, IsRoundedOutwardsForDither) {
  for (uint32_t seed = 0; seed < 2000; ++seed)
    forEachWidth([&]<class C>() {
      auto values = test::gaussian(128, seed, std::ldexp(1.0f, static_cast<int>(seed % 160) - 80));
      const float offset = seed % 3 ? 0 : 10 * values[0];
      for (float& value : values) value += offset;
      const auto scale = scaleOf<C>(values, Rounding::stochastic);
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      ASSERT_GE(scale.position(*low), 0.0f) << seed;
      // Up to the rounding of the position itself.
      ASSERT_LE(scale.position(*high), static_cast<float>(kTopCode<C>) * (1 + 0x1p-20f)) << seed;
    });
}

// What lies beyond the levels of two bits is no farther from them than what lies between.
TEST(UniformScale, NoErrorExceedsHalfAStep) {
  for (uint32_t seed = 0; seed < 500; ++seed)
    forEachWidth([&]<class C>() {
      const auto values = test::gaussian(128, seed);
      const auto scale = scaleOf<C>(values);
      const float rounding = 0x1p-7f * scale.step * static_cast<float>(kTopCode<C>);
      for (float value : values)
        ASSERT_NEAR(scale.decode(encode(scale, value)), value, scale.step / 2 + rounding) << seed;
    });
}

TEST(UniformScale, NothingOverflows) {
  const std::vector<std::vector<float>> blocks = {{-kLargest, kLargest},
                                                  {kLargest, kLargest * 0.5f},
                                                  {-kLargest, 0.0f, 1.0f},
                                                  {0x1p126f, -0x1p126f}};
  for (const auto& values : blocks)
    forEachWidth([&]<class C>() {
      const auto scale = scaleOf<C>(values);
      ASSERT_FALSE(scale.isMarked());
      for (uint32_t code = 0; code <= kTopCode<C>; ++code)
        ASSERT_TRUE(std::isfinite(scale.decode(code)));
      for (float value : values) ASSERT_LE(encode(scale, value), kTopCode<C>);
      EXPECT_LE(encode(scale, -kLargest), encode(scale, kLargest));
    });
}

// Inside the range the error is half a step; outside it, what rounding the pair has cut off.
TEST(UniformScale, ErrorIsBounded) {
  for (uint32_t seed = 0; seed < 3000; ++seed)
    forEachWidth([&]<class C>() {
      std::vector<float> values =
          test::gaussian(128, seed, std::ldexp(1.0f, static_cast<int>(seed % 200) - 100));
      const float offset = seed % 3 ? 0 : 10 * values[0];
      for (float& value : values) value += offset;
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      const auto scale = scaleOf<C>(values);
      const float pairSlack = (std::abs(*low) + (*high - *low)) / 256;
      const float top = scale.decode(kTopCode<C>);
      for (float value : values) {
        const float decoded = scale.decode(encode(scale, value));
        const bool isInside = value >= scale.minimum && value <= top;
        const float rounding = std::max(std::abs(value), std::abs(scale.minimum)) * 1e-6f;
        ASSERT_LE(std::abs(value - decoded),
                  scale.step / 2 + rounding + (isInside ? 0.0f : pairSlack))
            << seed << " " << value;
      }
    });
}

TEST(UniformScale, TiesGoToTheEvenCode) {
  const UniformScale<4> scale({0x3f80, 0});
  EXPECT_EQ(encode(scale, 0.5f), 0u);
  EXPECT_EQ(encode(scale, 1.5f), 2u);
  EXPECT_EQ(encode(scale, 2.5f), 2u);
  EXPECT_EQ(encode(scale, 14.5f), 14u);
  EXPECT_EQ(encode(scale, 15.5f), 15u);
  EXPECT_EQ(encode(scale, 1e30f), 15u);
  EXPECT_EQ(encode(scale, -1e30f), 0u);
  EXPECT_EQ(scale.codeAt(kNan), 0u);
}

// What was decoded codes to the same bytes again, wherever both ends of the range were used. Not
// with two bits, whose levels do not reach the ends.
template <class C>
bool isStable(const std::vector<float>& values) {
  const StepAndMinimum pair = pairOf<C>(values);
  const typename C::Scale scale(pair);
  std::vector<float> decoded;
  std::vector<uint32_t> codes;
  for (float value : values) {
    codes.push_back(encode(scale, value));
    decoded.push_back(scale.decode(codes.back()));
  }
  const auto [low, high] = std::minmax_element(codes.begin(), codes.end());
  if (*low != 0 || *high != kTopCode<C>) return false;
  const StepAndMinimum again = pairOf<C>(decoded);
  EXPECT_EQ(again.step, pair.step);
  EXPECT_EQ(again.minimum, pair.minimum);
  for (size_t i = 0; i < decoded.size(); ++i) EXPECT_EQ(encode(scale, decoded[i]), codes[i]);
  return true;
}

TEST(UniformScale, DecodedValuesAreStable) {
  forEachWidth([]<class C>() {
    if (C::kFormat.bits == 2) return;
    int nStable = 0;
    for (uint32_t seed = 0; seed < 1000 && !testing::Test::HasFailure(); ++seed)
      nStable += isStable<C>(test::gaussian(128, seed));
    EXPECT_GT(nStable, 300) << C::kName;
  });
}

TEST(UniformScale, PairsThatNoEncoderMakesAreHarmless) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    for (const StepAndMinimum pair : {StepAndMinimum{half, 0x3f80}, StepAndMinimum{0x3f80, half}}) {
      const UniformScale<8> scale(pair);
      ASSERT_EQ(scale.isMarked(), (half & 0x7fff) >= 0x7f80);
      ASSERT_TRUE(scale.isMarked() || !std::isnan(scale.decode(255)));
    }
  }
}

TEST(UniformCodec, Names) {
  EXPECT_STREQ(UniformCodec<4>::kName, "q4");
  EXPECT_STREQ(UniformCodec<3>::kName, "q3");
  EXPECT_EQ(UniformCodec<4>::kFormat.id, 4) << "ids of version 1 are the bits of a code";
}

}  // namespace
}  // namespace cinch::codec
