#include "kernels/codec/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cinch::codec {
namespace {

TEST(RoundToCode, IsNearestWithTiesToEven) {
  for (float position = 0; position <= 255; position += 0x1p-6f)
    ASSERT_EQ(roundToCode(position), static_cast<uint32_t>(std::nearbyint(position))) << position;
}

TEST(Clamp, CutsAtBothEnds) {
  EXPECT_EQ(clamp(0.5f, 0.0f, 3.0f), 0.5f);
  EXPECT_EQ(clamp(-1.0f, 0.0f, 3.0f), 0.0f);
  EXPECT_EQ(clamp(4.0f, 0.0f, 3.0f), 3.0f);
  EXPECT_EQ(clamp(std::numeric_limits<float>::infinity(), -2.0f, 2.0f), 2.0f);
  EXPECT_EQ(clamp(-std::numeric_limits<float>::infinity(), -2.0f, 2.0f), -2.0f);
  EXPECT_EQ(clamp(std::numeric_limits<float>::quiet_NaN(), -2.0f, 2.0f), -2.0f);
}

// The nearest bf16 number on the side asked for, and the number itself where it is one.
TEST(Bf16Outwards, BracketsTheValue) {
  for (uint32_t bits = 1; bits < 0x7f000000; bits += 0x1237)
    for (uint32_t sign : {0u, kFloatSignBit}) {
      const float value = floatOfBits(bits | sign);
      const float below = Bf16::toFloat(bf16Below(value)), above = Bf16::toFloat(bf16Above(value));
      ASSERT_LE(below, value);
      ASSERT_GE(above, value);
      const uint32_t distance = (bitsOfFloat(above) >> 16) - (bitsOfFloat(below) >> 16);
      ASSERT_TRUE(distance == 0 || distance == 1 || distance == ~0u || distance == 0xffff8001)
          << value;
      ASSERT_EQ(distance == 0, (bits & 0xffff) == 0) << value;
    }
}

TEST(Bf16Outwards, ZeroIsItself) {
  EXPECT_EQ(Bf16::toFloat(bf16Below(0.0f)), 0.0f);
  EXPECT_EQ(Bf16::toFloat(bf16Above(0.0f)), 0.0f);
}

// A subnormal number of fp32 below those of bf16 has zero on one side.
TEST(Bf16Outwards, TinyValuesAreNotLost) {
  EXPECT_EQ(Bf16::toFloat(bf16Below(1e-45f)), 0.0f);
  EXPECT_EQ(Bf16::toFloat(bf16Above(1e-45f)), 0x1p-133f);
  EXPECT_EQ(Bf16::toFloat(bf16Below(-1e-45f)), -0x1p-133f);
}

}  // namespace
}  // namespace cinch::codec
