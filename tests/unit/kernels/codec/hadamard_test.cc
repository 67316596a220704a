#include "kernels/codec/hadamard.h"

#include "kernels/core/rotation.h"
#include "tests/unit/kernels/codec/block_run.h"

namespace cinch::codec {
namespace {

using test::BlockRun;
using test::kLargest;

// A grid step of 1: values are in the table's own unit.
constexpr GridStep kOne = {0x3f80};

template <uint32_t bits>
uint32_t codeOf(float value) {
  const HadamardScale<bits> scale(kOne);
  return scale.codeAt(scale.position(value));
}

TEST(HadamardLevels, AreThoseOfTheTable) {
  const HadamardScale<2> two(kOne);
  const float levels2[] = {-126, -39, 39, 126};
  for (uint32_t code = 0; code < 4; ++code) EXPECT_EQ(two.decode(code), levels2[code]);
  const HadamardScale<3> three(kOne);
  const float levels3[] = {-172, -107, -60, -20, 20, 60, 107, 172};
  for (uint32_t code = 0; code < 8; ++code) EXPECT_EQ(three.decode(code), levels3[code]);
  const HadamardScale<4> four(kOne);
  const float levels4[] = {-218, -164, -129, -101, -76, -53, -32, -10,
                           10,   32,   53,   76,   101, 129, 164, 218};
  for (uint32_t code = 0; code < 16; ++code) EXPECT_EQ(four.decode(code), levels4[code]);
}

// Each level codes to itself, the codes go up with the values, and no position leaves their range.
template <uint32_t bits>
void expectOrdered() {
  const HadamardScale<bits> scale(kOne);
  for (uint32_t code = 0; code < 1u << bits; ++code)
    EXPECT_EQ(codeOf<bits>(scale.decode(code)), code) << bits;
  uint32_t before = 0;
  for (float value = -300; value <= 300; value += 0x1p-8f) {
    const float position = scale.position(value);
    ASSERT_GE(position, 0.0f) << value;
    ASSERT_LE(position, static_cast<float>((1u << bits) - 1)) << value;
    const uint32_t code = scale.codeAt(position);
    ASSERT_GE(code, before) << value;
    before = code;
  }
  EXPECT_EQ(codeOf<bits>(-kLargest), 0u);
  EXPECT_EQ(codeOf<bits>(kLargest), (1u << bits) - 1);
}

TEST(Hadamard, CodesAreOrdered) {
  expectOrdered<2>();
  expectOrdered<3>();
  expectOrdered<4>();
}

// The cubic passes between the levels where a comparison with both would decide, nearly; of two
// bits, whose levels are longer than what they code, where it would have without that.
template <uint32_t bits>
void expectNearlyNearest(float slack) {
  const HadamardScale<bits> scale(kOne);
  for (uint32_t code = 1; code < 1u << bits; ++code) {
    const float threshold = (scale.decode(code - 1) + scale.decode(code)) / 2;
    EXPECT_LT(codeOf<bits>(threshold - slack), code) << bits;
    EXPECT_GE(codeOf<bits>(threshold + slack), code) << bits;
  }
}

TEST(Hadamard, ThresholdsAreNearlyInTheMiddle) {
  expectNearlyNearest<2>(4.6f);
  expectNearlyNearest<3>(2.0f);
  expectNearlyNearest<4>(4.0f);
}

TEST(Hadamard, StepIsA64thOfTheMeanMagnitude) {
  for (float sum : {1.0f, 3e-20f, 7e20f}) {
    const GridStep step = HadamardCodec<4>::blockMeta({sum}, 128, Rounding::nearest);
    EXPECT_NEAR(Bf16::toFloat(step.bits) / (sum / 128 / 64), 1, 1.0 / 256);
  }
  EXPECT_EQ(HadamardCodec<4>::blockMeta({0x1p-107f}, 128, Rounding::nearest).bits, 0x0380);
  EXPECT_EQ(HadamardCodec<4>::blockMeta({0x1.fp-108f}, 128, Rounding::nearest).bits, 0);
}

// Whatever the data are, a block has the error of Gaussian data, or not much more.
TEST(Hadamard, AnyBlockIsNearlyGaussian) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::vector<float> values(128, 0.0f);
    const uint32_t nOutliers = 1 + seed % 40;
    for (uint32_t i = 0; i < nOutliers; ++i) values[(seed * 37 + i * 11) % 128] += 1000.0f;
    for (float& value : values) value += test::gaussian(1, seed)[0];
    const BlockRun<HadamardCodec<4>> run(values, nullptr, {seed * 16, seed});
    double error = 0, power = 0;
    for (size_t i = 0; i < 128; ++i) {
      error += std::pow(static_cast<double>(values[i] - run.decoded[i]), 2);
      power += std::pow(static_cast<double>(values[i]), 2);
    }
    ASSERT_LT(error / power, 0.08) << nOutliers;
  }
}

// What a codec makes smaller arrives late under error feedback, and never without: levels of two
// bits are long enough that 7 % are missing. Lloyd-Max's would lack 11.8 %.
TEST(Hadamard, TwoBitsShrinkLittle) {
  double projected = 0, power = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    const std::vector<float> values = test::gaussian(128, seed);
    const BlockRun<HadamardCodec<2>> run(values, nullptr, {seed * 16, seed});
    for (size_t i = 0; i < 128; ++i) {
      projected += static_cast<double>(values[i]) * run.decoded[i];
      power += static_cast<double>(values[i]) * values[i];
    }
  }
  EXPECT_NEAR(projected / power, 0.930, 0.002);
}

// A single value spreads evenly, and comes back where it was: a little smaller, and alone.
TEST(Hadamard, ASingleValueStaysAlone) {
  for (uint32_t at = 0; at < 128; ++at) {
    std::vector<float> values(128, 0.0f);
    values[at] = -5.0f;
    const BlockRun<HadamardCodec<3>> run(values, nullptr, {32, at});
    for (uint32_t i = 0; i < 128; ++i)
      ASSERT_NEAR(run.decoded[i], i == at ? -5.0f * 60 / 64 : 0.0f, 0.03f) << at;
  }
}

TEST(Hadamard, PartialBlocksAreWhole) {
  for (size_t n = 1; n < 128; ++n) {
    const std::vector<float> values = test::gaussian(n, static_cast<uint32_t>(n));
    std::vector<float> padded = values;
    padded.resize(128, 0.0f);
    const BlockRun<HadamardCodec<4>> run(values), whole(padded);
    EXPECT_EQ(run.meta, whole.meta);
    EXPECT_EQ(run.codes, whole.codes);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(run.decoded[i], whole.decoded[i]);
  }
}

// Values so large that their sum is infinite are refused like infinite ones; below, all is finite.
TEST(Hadamard, HugeValuesAreCodedOrMarked) {
  const BlockRun<HadamardCodec<4>> coded(std::vector<float>(128, 0x1p120f));
  for (float decoded : coded.decoded) ASSERT_NEAR(decoded / 0x1p120f, 1.0f, 0.5f);
  int nMarked = 0;
  for (float value : {0x1p124f, 0x1p126f, kLargest}) {
    const BlockRun<HadamardCodec<4>> run(test::gaussian(128, 3, 1.0f));
    std::vector<float> values = run.decoded;
    for (float& decoded : values) decoded = decoded < 0 ? -value : value;
    const BlockRun<HadamardCodec<4>> huge(values);
    for (float decoded : huge.decoded) ASSERT_EQ(std::isnan(decoded), huge.scale().isMarked());
    nMarked += huge.scale().isMarked();
  }
  EXPECT_GT(nMarked, 0);
}

}  // namespace
}  // namespace cinch::codec
