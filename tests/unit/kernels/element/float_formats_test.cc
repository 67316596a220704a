#include "kernels/element/float_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace cinch {
namespace {

// The finite code nearest to a value, ties to even, by trying all of one sign.
template <class Format>
uint32_t nearestCode(double value, uint32_t nCodes, uint32_t signBit) {
  uint32_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t code = 0; code < nCodes; ++code) {
    const double distance = std::abs(std::abs(value) - static_cast<double>(Format::toFloat(code)));
    if (distance < least || (distance == least && code % 2 == 0)) {
      best = code;
      least = distance;
    }
  }
  return best | (std::signbit(value) ? signBit : 0);
}

template <class Format>
void expectNearest(uint32_t nCodes, uint32_t signBit, float largest) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-24.0f, std::log2(largest) + 2);
  for (int i = 0; i < 20000; ++i) {
    const float magnitude = std::exp2(exponent(random));
    for (float value : {magnitude, -magnitude})
      ASSERT_EQ(Format::fromFloat(value), nearestCode<Format>(value, nCodes, signBit)) << value;
  }
  // All codes and the ties between them.
  for (uint32_t code = 0; code < nCodes; ++code) {
    const float value = Format::toFloat(code);
    ASSERT_EQ(Format::fromFloat(value), code);
    ASSERT_EQ(Format::fromFloat(-value), code | signBit);
    if (code == 0) continue;
    const float tie = (Format::toFloat(code - 1) + value) / 2;
    ASSERT_EQ(Format::fromFloat(tie), code % 2 ? code - 1 : code);
  }
}

TEST(E4m3, KnownValues) {
  EXPECT_EQ(E4m3::toFloat(0x00), 0.0f);
  EXPECT_EQ(E4m3::toFloat(0x01), 0x1p-9f);
  EXPECT_EQ(E4m3::toFloat(0x08), 0x1p-6f);
  EXPECT_EQ(E4m3::toFloat(0x38), 1.0f);
  EXPECT_EQ(E4m3::toFloat(0x7e), 448.0f);
  EXPECT_EQ(E4m3::toFloat(0xfe), -448.0f);
  EXPECT_TRUE(std::signbit(E4m3::toFloat(0x80)));
  EXPECT_TRUE(std::isnan(E4m3::toFloat(0x7f)));
  EXPECT_TRUE(std::isnan(E4m3::toFloat(0xff)));
}

TEST(E4m3, RoundsToNearest) {
  expectNearest<E4m3>(0x7f, 0x80, 448.0f);
}

TEST(E2m1, KnownValues) {
  const float values[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  for (uint32_t code = 0; code < 8; ++code) {
    EXPECT_EQ(E2m1::toFloat(code), values[code]);
    EXPECT_EQ(E2m1::toFloat(code | 8), -values[code]);
  }
}

TEST(E2m1, RoundsToNearest) {
  expectNearest<E2m1>(8, 8, 6.0f);
}

TEST(SmallFloats, WhatIsTooLargeSaturates) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (float value : {449.0f, 1e30f, kInfinity, kNan}) {
    EXPECT_EQ(E4m3::fromFloat(value), 0x7eu);
    EXPECT_EQ(E2m1::fromFloat(value), 0x7u);
  }
  EXPECT_EQ(E4m3::fromFloat(-kInfinity), 0xfeu);
  EXPECT_EQ(E2m1::fromFloat(-7.0f), 0xfu);
}

TEST(E8m0, IsAPowerOfTwo) {
  for (uint32_t code = 0; code < 255; ++code)
    EXPECT_EQ(E8m0::toFloat(code), std::ldexp(1.0f, static_cast<int>(code) - 127)) << code;
  EXPECT_TRUE(std::isnan(E8m0::toFloat(255)));
}

}  // namespace
}  // namespace cinch
