#include <gtest/gtest.h>

#include <limits>

#include "kernels/core/reference_codec.h"
#include "kernels/element/element_traits.h"
#include "tests/unit/kernels/statistics_differential.h"

namespace cinch::core {
namespace {

using test::kTypes, test::toElements;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const host::HostCodec& codec = host::fastestHostCodec();

// Of one value of each part, of which the caller's own is in place `ownPosition`.
float sumOf(ElementType type, const std::vector<float>& parts, uint32_t ownPosition) {
  std::vector<float> rest = parts;
  rest.erase(rest.begin() + ownPosition);
  const auto own = toElements(type, {parts[ownPosition]}), others = toElements(type, rest);
  float sum = 0;
  codec.sumParts({.own = own.data(),
                  .others = others.data(),
                  .strideBytes = elementBytes(type),
                  .nParts = static_cast<uint32_t>(parts.size()),
                  .ownPosition = ownPosition,
                  .count = 1,
                  .type = type,
                  .sum = &sum});
  return sum;
}

TEST(Sum, OfPartsIsInTheirOrderWhoeverAdds) {
  // 2^24 swallows a one that is added to it, not two.
  for (uint32_t own = 0; own < 3; ++own) {
    EXPECT_EQ(sumOf(ElementType::fp32, {0x1p24f, 1, 1}, own), 0x1p24f);
    EXPECT_EQ(sumOf(ElementType::fp32, {1, 1, 0x1p24f}, own), 0x1p24f + 2);
  }
}

TEST(Sum, IsInFp32WhateverTheType) {
  EXPECT_EQ(sumOf(ElementType::fp16, {60000, 60000}, 0), 120000.0f);
  EXPECT_EQ(sumOf(ElementType::bf16, {256, 1}, 1), 257.0f);
}

TEST(Sum, OfWhatIsNotFiniteIsNot) {
  for (const ElementType type : kTypes) {
    EXPECT_EQ(sumOf(type, {1, kInfinity, 2}, 0), kInfinity);
    EXPECT_EQ(sumOf(type, {-kInfinity, 1}, 1), -kInfinity);
    for (const auto& parts : {std::vector{kInfinity, -kInfinity}, {1.0f, -kNan}, {kNan, 1.0f}})
      EXPECT_EQ(bitsOfFloat(sumOf(type, parts, 1)),
                ElementTraits<ElementType::fp32>::kCanonicalNan);
  }
}

TEST(Sum, OfOnePartIsThatPart) {
  for (const ElementType type : kTypes) {
    EXPECT_EQ(sumOf(type, {-1.5f}, 0), -1.5f);
    EXPECT_EQ(bitsOfFloat(sumOf(type, {-kNan}, 0)),
              ElementTraits<ElementType::fp32>::kCanonicalNan);
  }
}

TEST(Sum, TheHostEqualsTheReference) {
  for (uint32_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed)
    test::expectSumsLikeReference(codec, seed < 60 ? seed * 61 % 3100 : seed * 997 % 20000, seed);
}

}  // namespace
}  // namespace cinch::core
