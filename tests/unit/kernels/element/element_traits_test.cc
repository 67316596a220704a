#include "kernels/element/element_traits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace cinch {
namespace {

using Fp32 = ElementTraits<ElementType::fp32>;
using Fp16 = ElementTraits<ElementType::fp16>;
using Bf16 = ElementTraits<ElementType::bf16>;

// fp16 as IEEE 754 defines it, by way of exact double arithmetic.
double exactFp16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(ElementTraits, Fp16ToFloatIsExact) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = Fp16::toFloat(static_cast<uint16_t>(bits));
    if ((bits & 0x7fff) < Fp16::kInfinity) {
      ASSERT_EQ(value, exactFp16(static_cast<uint16_t>(bits))) << bits;
      ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    } else if ((bits & 0x7fff) == Fp16::kInfinity) {
      ASSERT_TRUE(std::isinf(value) && std::signbit(value) == (bits >= 0x8000)) << bits;
    } else {
      ASSERT_TRUE(std::isnan(value)) << bits;
    }
  }
}

template <class Traits>
void expectRoundTrip() {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto element = static_cast<uint16_t>(bits);
    const bool isNan = (bits & 0x7fff) > Traits::kInfinity;
    const uint16_t expected = isNan ? Traits::kCanonicalNan : element;
    ASSERT_EQ(Traits::fromFloat(Traits::toFloat(element)), expected) << bits;
    ASSERT_EQ(Traits::isStorageFinite(element), (bits & 0x7fff) < Traits::kInfinity) << bits;
  }
}

TEST(ElementTraits, Fp16RoundTrip) {
  expectRoundTrip<Fp16>();
}
TEST(ElementTraits, Bf16RoundTrip) {
  expectRoundTrip<Bf16>();
}

// Between two neighbours every value goes to the nearer one, the middle to the even one.
template <class Traits>
void expectNearestEven() {
  for (uint16_t low = 0; low < Traits::kInfinity - 1; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const double below = Traits::toFloat(low), above = Traits::toFloat(high);
    const auto middle = static_cast<float>((below + above) / 2);
    if (middle == static_cast<float>(below) || middle == static_cast<float>(above)) continue;
    const uint16_t even = low % 2 == 0 ? low : high;
    ASSERT_EQ(Traits::fromFloat(middle), even) << low;
    ASSERT_EQ(Traits::fromFloat(std::nextafter(middle, 0.0f)), low) << low;
    ASSERT_EQ(Traits::fromFloat(std::nextafter(middle, INFINITY)), high) << low;
    ASSERT_EQ(Traits::fromFloat(-middle), even | 0x8000) << low;
  }
}

TEST(ElementTraits, Fp16RoundsToNearestEven) {
  expectNearestEven<Fp16>();
}
TEST(ElementTraits, Bf16RoundsToNearestEven) {
  expectNearestEven<Bf16>();
}

TEST(ElementTraits, TooLargeBecomesInfinite) {
  EXPECT_EQ(Fp16::fromFloat(65504.0f), 0x7bff);
  EXPECT_EQ(Fp16::fromFloat(65519.99f), 0x7bff);
  EXPECT_EQ(Fp16::fromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(Fp16::fromFloat(-1e30f), 0xfc00);
  EXPECT_EQ(Bf16::fromFloat(3.4028235e38f), 0x7f80);
  EXPECT_EQ(Bf16::fromFloat(-INFINITY), 0xff80);
}

TEST(ElementTraits, EveryNanIsTheCanonicalOne) {
  std::mt19937 random(3);
  for (int i = 0; i < 100000; ++i) {
    const float nan = floatOfBits(0x7f800001u + static_cast<uint32_t>(random()) % 0x7ffffe +
                                  (i % 2 ? kFloatSignBit : 0));
    ASSERT_TRUE(std::isnan(nan));
    ASSERT_EQ(bitsOfFloat(Fp32::fromFloat(nan)), 0x7fc00000u);
    ASSERT_EQ(Fp16::fromFloat(nan), 0x7e00);
    ASSERT_EQ(Bf16::fromFloat(nan), 0x7fc0);
  }
}

TEST(ElementTraits, Fp32KeepsEveryNumber) {
  std::mt19937 random(4);
  for (int i = 0; i < 100000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    if (std::isnan(floatOfBits(bits))) continue;
    ASSERT_EQ(bitsOfFloat(Fp32::fromFloat(floatOfBits(bits))), bits);
    ASSERT_EQ(Fp32::isStorageFinite(floatOfBits(bits)), std::isfinite(floatOfBits(bits)));
  }
}

}  // namespace
}  // namespace cinch
