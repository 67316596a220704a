#include "kernels/codec/clipped.h"

#include "tests/unit/kernels/codec/block_run.h"

namespace cinch::codec {
namespace {

using test::BlockRun;
using test::kLargest;

template <uint32_t bits>
HalfStep halfStepOf(float largest, Rounding rounding = Rounding::nearest) {
  return ClippedCodec<bits>::blockMeta(core::Magnitude::of(largest), 128, rounding);
}

TEST(ClippedHalfStep, KnownValues) {
  EXPECT_EQ(halfStepOf<8>(-255.0f).bits, 0x3f80);  // 1
  EXPECT_EQ(halfStepOf<5>(31.0f).bits, 0x3f80);
  EXPECT_EQ(halfStepOf<4>(15.0f).bits, 0x3f61);  // 0.88
  EXPECT_EQ(halfStepOf<3>(7.0f).bits, 0x3f3d);   // 0.74
  EXPECT_EQ(halfStepOf<2>(3.0f).bits, 0x3f0a);   // 0.54
}

TEST(ClippedHalfStep, TooSmallIsZero) {
  EXPECT_EQ(Bf16::toFloat(halfStepOf<8>(core::kSmallestScale * 255).bits), core::kSmallestScale);
  EXPECT_EQ(halfStepOf<8>(core::kSmallestScale * 254).bits, 0);
}

TEST(Clipped, LevelsAreOddHalfSteps) {
  const ClippedScale<2> two({0x3f80}, {});
  EXPECT_EQ(two.decode(0), -3.0f);
  EXPECT_EQ(two.decode(1), -1.0f);
  EXPECT_EQ(two.decode(2), 1.0f);
  EXPECT_EQ(two.decode(3), 3.0f);
  const ClippedScale<8> eight({0x3f80}, {});
  for (uint32_t code = 0; code < 256; ++code)
    EXPECT_EQ(eight.decode(code), 2 * static_cast<float>(code) - 255);
}

TEST(Clipped, ThresholdsLieBetweenLevels) {
  const ClippedScale<2> scale({0x3f80}, {});
  const auto codeOf = [&](float value) { return scale.codeAt(scale.position(value)); };
  EXPECT_EQ(codeOf(-kLargest), 0u);
  EXPECT_EQ(codeOf(-2.01f), 0u);
  EXPECT_EQ(codeOf(-1.99f), 1u);
  EXPECT_EQ(codeOf(-0.01f), 1u);
  EXPECT_EQ(codeOf(-0.0f), 2u);
  EXPECT_EQ(codeOf(0.0f), 2u);
  EXPECT_EQ(codeOf(1.99f), 2u);
  EXPECT_EQ(codeOf(2.01f), 3u);
  EXPECT_EQ(codeOf(kLargest), 3u);
}

// An all-zero block has no level that is zero but decodes to zeros, without a sign.
TEST(Clipped, ZeroBlocksDecodeToPositiveZero) {
  const BlockRun<ClippedCodec<2>> run(std::vector<float>(128, -0.0f));
  for (float decoded : run.decoded) EXPECT_EQ(bitsOfFloat(decoded), 0u);
}

TEST(Clipped, NothingOverflows) {
  for (float value : {kLargest, -kLargest, 0x1p126f}) {
    const BlockRun<ClippedCodec<8>> run({value, 1.0f, -value});
    EXPECT_TRUE(std::isfinite(run.decoded[0] - value));
    EXPECT_TRUE(std::isfinite(run.decoded[2] + value));
  }
}

// Between the outermost levels the error is half a step; beyond, what was clipped.
template <uint32_t bits>
void expectBoundedError(const std::vector<float>& values) {
  const BlockRun<ClippedCodec<bits>> run(values);
  const ClippedScale<bits> scale = run.scale();
  const float outermost = scale.decode((1u << bits) - 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const float clipped = std::abs(values[i]) - outermost;
    const float bound = std::max(clipped, scale.halfStep) * 1.00001f;
    ASSERT_LE(std::abs(values[i] - run.decoded[i]), bound) << bits << " " << values[i];
    ASSERT_EQ(std::signbit(values[i]), std::signbit(run.decoded[i])) << values[i];
  }
}

TEST(Clipped, ErrorIsBounded) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const std::vector<float> values =
        test::gaussian(128, seed, std::ldexp(1.0f, static_cast<int>(seed % 200) - 100));
    expectBoundedError<2>(values);
    expectBoundedError<3>(values);
    expectBoundedError<4>(values);
    expectBoundedError<5>(values);
    expectBoundedError<6>(values);
    expectBoundedError<8>(values);
  }
}

TEST(Clipped, StochasticStepsCoverTheRange) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const float largest = std::abs(test::gaussian(1, seed)[0]);
    const ClippedScale<6> scale(halfStepOf<6>(largest, Rounding::stochastic), {});
    ASSERT_GE(scale.decode(63), largest * (1 - 1e-6f));
    ASSERT_LE(scale.decode(63), largest * 1.01f);
  }
}

}  // namespace
}  // namespace cinch::codec
