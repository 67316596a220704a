#include "kernels/element/float_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace cinch {
namespace {

constexpr uint32_t kCodes = 0x7f;  // finite ones of one sign

// The finite code nearest to a value, ties to even, by trying all of one sign.
uint32_t nearestCode(double value) {
  uint32_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t code = 0; code < kCodes; ++code) {
    const double distance = std::abs(std::abs(value) - static_cast<double>(E4m3::toFloat(code)));
    if (distance < least || (distance == least && code % 2 == 0)) {
      best = code;
      least = distance;
    }
  }
  return best | (std::signbit(value) ? 0x80 : 0);
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
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-24.0f, std::log2(448.0f) + 2);
  for (int i = 0; i < 20000; ++i) {
    const float magnitude = std::exp2(exponent(random));
    for (float value : {magnitude, -magnitude})
      ASSERT_EQ(E4m3::fromFloat(value), nearestCode(value)) << value;
  }
}

TEST(E4m3, CodesAndTheTiesBetweenThem) {
  for (uint32_t code = 0; code < kCodes; ++code) {
    const float value = E4m3::toFloat(code);
    ASSERT_EQ(E4m3::fromFloat(value), code);
    ASSERT_EQ(E4m3::fromFloat(-value), code | 0x80);
    if (code == 0) continue;
    const float tie = (E4m3::toFloat(code - 1) + value) / 2;
    ASSERT_EQ(E4m3::fromFloat(tie), code % 2 ? code - 1 : code);
  }
}

TEST(E4m3, WhatIsTooLargeSaturates) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (float value : {449.0f, 1e30f, kInfinity, kNan}) EXPECT_EQ(E4m3::fromFloat(value), 0x7eu);
  EXPECT_EQ(E4m3::fromFloat(-kInfinity), 0xfeu);
}

}  // namespace
}  // namespace cinch
