// What holds for every codec.
#include <algorithm>

#include "kernels/core/feedback.h"
#include "tests/unit/kernels/codec/block_run.h"

namespace cinch::test {
namespace {

using wire::kBlockElems;

TEST(EveryCodec, NothingNotFiniteDecodesToANumber) {
  forEachCodec([]<class C>() {
    for (size_t n = 1; n <= kBlockElems; ++n)
      for (float special : {kNan, -kNan, kInfinity, -kInfinity}) {
        std::vector<float> values = gaussian(n, static_cast<uint32_t>(n));
        const size_t at = n * 7 / 11;
        values[at] = special;
        const BlockRun<C> run(values);
        ASSERT_FALSE(std::isfinite(run.decoded[at]));
        if (kIsCast<C>) continue;
        // All of its block is marked.
        for (size_t i = 0; i < n; ++i) {
          ASSERT_TRUE(std::isnan(run.decoded[i]));
          ASSERT_EQ(run.code(static_cast<uint32_t>(i)), 0u);
        }
      }
  });
}

TEST(EveryCodec, ZerosStayZero) {
  forEachCodec([]<class C>() {
    for (size_t n = 1; n <= kBlockElems; ++n)
      for (float zero : {0.0f, -0.0f})
        for (float decoded : BlockRun<C>(std::vector<float>(n, zero)).decoded)
          ASSERT_EQ(decoded, 0.0f);
  });
}

// Where the values of a block end, codes are zero; those of a rotated block are all there.
TEST(EveryCodec, TailsHaveNoCodes) {
  forEachCodec([]<class C>() {
    if (C::kIsRotated) return;
    for (size_t n = 1; n <= kBlockElems; ++n) {
      const BlockRun<C> run(gaussian(n, static_cast<uint32_t>(n)));
      ASSERT_EQ(run.decoded.size(), n);
      for (auto i = static_cast<uint32_t>(n); i < kBlockElems; ++i) ASSERT_EQ(run.code(i), 0u);
    }
  });
}

// The error of a value is never more than the range of its block, however extreme that is.
TEST(EveryCodec, ErrorsStayInTheRange) {
  forEachCodec([]<class C>() {
    for (int exponent : {-149, -140, -127, -126, -121, -119, -100, -20, 0, 15, 60, 100}) {
      std::vector<float> values =
          gaussian(kBlockElems, static_cast<uint32_t>(200 + exponent), 0x1p-3f);
      for (float& value : values) value = std::ldexp(value, exponent);
      if (kIsCast<C> && std::abs(exponent) > 15) continue;  // fp16 is finite in these only
      const BlockRun<C> run(values);
      const float range = 2 * largestMagnitude(values);
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_LE(std::abs(values[i] - run.decoded[i]), range) << exponent;
    }
  });
}

TEST(EveryCodec, LargerValuesNeverDecodeToLess) {
  forEachCodec([]<class C>() {
    for (uint32_t seed = 0; seed < 8; ++seed) {
      const BlockRun<C> run(gaussian(kBlockElems, seed));
      const auto scale = run.scale();
      float before = -kInfinity;
      for (float value = -8.0f; value < 8.0f; value += 0x1p-9f) {
        const float decoded = scale.decode(scale.codeAt(scale.position(value)));
        ASSERT_GE(decoded, before) << value;
        before = decoded;
      }
      ASSERT_GT(before, 0.0f);
    }
  });
}

TEST(EveryCodec, AnyPositionHasACode) {
  std::mt19937 random(1);
  std::vector<float> positions = {kNan, -kNan, kInfinity, -kInfinity, kLargest, -kLargest, -0.0f};
  for (int i = 0; i < 10000; ++i) positions.push_back(floatOfBits(static_cast<uint32_t>(random())));
  forEachCodec([&]<class C>() {
    const auto scale = BlockRun<C>(gaussian(kBlockElems, 1)).scale();
    for (float position : positions)
      ASSERT_LT(scale.codeAt(position), uint64_t{1} << C::kFormat.bits);
  });
}

// Bytes that no encoder makes: what is not marked decodes to numbers, if perhaps infinite ones, but
// for the two NaNs of e4m3.
TEST(EveryCodec, AnyMetadataDecodes) {
  std::mt19937 random(2);
  forEachCodec([&]<class C>() {
    if (kIsCast<C>) return;
    constexpr bool kHasNanCodes = std::is_same_v<typename C::Scale, codec::Float8Scale>;
    int nMarked = 0, nDecoded = 0;
    for (int round = 0; round < 2000; ++round) {
      uint8_t bytes[64];
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % 4 ? random() : 0xff);
      const auto scale = reference::storedScale<C>(bytes);
      if (scale.isMarked()) {
        ++nMarked;
        continue;
      }
      for (uint32_t code = 0; code < uint64_t{1} << C::kFormat.bits; ++code, ++nDecoded)
        ASSERT_EQ(std::isnan(scale.decode(code)), kHasNanCodes && (code & 0x7f) == 0x7f);
    }
    EXPECT_GT(nMarked, 0);
    EXPECT_GT(nDecoded, 1000);
  });
}

// What was decoded codes to the same values again.
template <BlockCodec C>
void expectStable() {
  SCOPED_TRACE(C::kName);
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const size_t n = seed % 3 ? kBlockElems : 1 + seed % kBlockElems;
    const BlockRun<C> once(studentT3(n, seed, 1e-3f));
    const BlockRun<C> again(once.decoded);
    for (size_t i = 0; i < n; ++i)
      ASSERT_EQ(bitsOfFloat(again.decoded[i]), bitsOfFloat(once.decoded[i])) << seed;
  }
}

TEST(EveryCodec, DecodedValuesAreStableWhereTheScaleFollowsFromThem) {
  expectStable<codec::SignCodec>();
  expectStable<codec::Float8Codec>();
  expectStable<codec::CastCodec<ElementType::bf16>>();
  expectStable<codec::CastCodec<ElementType::fp16>>();
}

// Low-gain feedback drops nothing: inputs less outputs are the residual, for any codec.
TEST(EveryCodec, FeedbackKeepsWhatIsLeftOut) {
  constexpr core::FeedbackRule kFeedback{0.1f, 1.0f};
  forEachCodec([&]<class C>() {
    const uint32_t n = kBlockElems;
    std::vector<float> residual(n, 0.0f), coded(n);
    std::vector<double> balance(n, 0.0);
    for (uint32_t step = 1; step <= 50; ++step) {
      const std::vector<float> values = laplace(n, step);
      for (uint32_t i = 0; i < n; ++i) coded[i] = kFeedback.compensate(values[i], residual[i]);
      const BlockRun<C> run(coded, nullptr, {0, step});
      for (uint32_t i = 0; i < n; ++i) {
        residual[i] = kFeedback.next(residual[i], values[i], run.decoded[i]);
        balance[i] += static_cast<double>(values[i]) - static_cast<double>(run.decoded[i]);
        ASSERT_NEAR(balance[i], residual[i], 1e-5 * (1 + std::abs(residual[i])) * step) << step;
      }
    }
  });
}

// The mean of many dithered codes of a value is the value, to some standard errors.
template <BlockCodec C>
void expectUnbiased() {
  SCOPED_TRACE(C::kName);
  constexpr uint32_t n = kBlockElems, kRounds = 3000;
  const std::vector<float> values = gaussian(n, 5);
  std::vector<double> errors(n, 0.0), squares(n, 0.0);
  for (uint32_t round = 0; round < kRounds; ++round) {
    const core::DitherKey dither{0x1234567890, 0, 0, round, 3};
    const BlockRun<C> run(values, &dither);
    for (uint32_t i = 0; i < n; ++i) {
      const double error = static_cast<double>(run.decoded[i]) - static_cast<double>(values[i]);
      errors[i] += error;
      squares[i] += error * error;
    }
  }
  double sum = 0, variance = 0;
  for (uint32_t i = 0; i < n; ++i) {
    sum += errors[i];
    variance += squares[i];
    ASSERT_LT(std::abs(errors[i]), 5 * std::sqrt(squares[i]) + 1e-4) << values[i];
  }
  EXPECT_LT(std::abs(sum), 4 * std::sqrt(variance));
}

TEST(EveryCodec, DitherIsUnbiased) {
  int nCodecs = 0;
  forEachCodec([&]<class C>() {
    if constexpr (C::kDithers) {
      expectUnbiased<C>();
      ++nCodecs;
    }
  });
  EXPECT_EQ(nCodecs, 6);  // q2 to q8
}

}  // namespace
}  // namespace cinch::test
