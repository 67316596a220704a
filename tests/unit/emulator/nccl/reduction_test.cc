#include "emulator/nccl/reduction.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "emulator/nccl/element.h"

namespace cinch::emulator {
namespace {

template <class T>
std::vector<T> combined(ncclDataType_t type, ncclRedOp_t op, std::vector<T> received,
                        const std::vector<T>& own, int nRanks = 1) {
  const uint64_t scalar = averageScalar(type, nRanks);
  findReduction(type, op)->combine(received.data(), own.data(), received.data(), own.size(),
                                   &scalar);
  return received;
}

// The value of a short float by its definition, in double.
double valueOf(uint16_t bits, int nFraction, int bias) {
  const int fraction = bits & ((1 << nFraction) - 1);
  const int exponent = (bits & 0x7fff) >> nFraction;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias - nFraction)
                    : std::ldexp(fraction + (1 << nFraction), exponent - bias - nFraction);
  return bits & 0x8000 ? -magnitude : magnitude;
}

struct Format {
  int nFraction;
  int bias;
  uint16_t infinity;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
};

const Format kFormats[] = {
    {10, 15, 0x7c00, Float16Element::widen, Float16Element::narrow},
    {7, 127, 0x7f80, Bfloat16Element::widen, Bfloat16Element::narrow},
};

TEST(ShortFloats, WidenEveryValueExactly) {
  for (const Format& format : kFormats) {
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
      const uint16_t magnitude = bits & 0x7fff;
      const float wide = format.widen(static_cast<uint16_t>(bits));
      if (magnitude > format.infinity) {
        EXPECT_TRUE(std::isnan(wide)) << bits;
      } else if (magnitude == format.infinity) {
        EXPECT_TRUE(std::isinf(wide)) << bits;
      } else {
        ASSERT_EQ(wide, valueOf(static_cast<uint16_t>(bits), format.nFraction, format.bias))
            << bits;
      }
      ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0) << bits;
    }
  }
}

TEST(ShortFloats, NarrowWhatTheyWidened) {
  for (const Format& format : kFormats) {
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
      if ((bits & 0x7fff) > format.infinity) continue;  // NaNs: below
      ASSERT_EQ(format.narrow(format.widen(static_cast<uint16_t>(bits))), bits);
    }
    EXPECT_TRUE(std::isnan(format.widen(format.narrow(std::numeric_limits<float>::quiet_NaN()))));
    EXPECT_TRUE(
        std::isnan(format.widen(format.narrow(std::numeric_limits<float>::signaling_NaN()))));
  }
}

// Every pair of neighbours: their middle goes to the even one, anything off it to the nearer.
TEST(ShortFloats, RoundToNearestEven) {
  for (const Format& format : kFormats) {
    for (uint16_t bits = 0; bits + 1 < format.infinity; ++bits) {
      const double low = valueOf(bits, format.nFraction, format.bias);
      const double high = valueOf(bits + 1, format.nFraction, format.bias);
      const auto middle = static_cast<float>((low + high) / 2);
      if (middle != (low + high) / 2) continue;  // below fp32's own subnormal numbers
      const uint16_t even = bits % 2 == 0 ? bits : bits + 1;
      ASSERT_EQ(format.narrow(middle), even) << bits;
      ASSERT_EQ(format.narrow(std::nextafterf(middle, 0)), bits) << bits;
      ASSERT_EQ(format.narrow(std::nextafterf(middle, INFINITY)), bits + 1) << bits;
      ASSERT_EQ(format.narrow(-middle), even | 0x8000) << bits;
    }
    EXPECT_EQ(format.narrow(std::numeric_limits<float>::infinity()), format.infinity);
    EXPECT_EQ(format.narrow(std::numeric_limits<float>::max()), format.infinity);
    EXPECT_EQ(format.narrow(-std::numeric_limits<float>::max()), format.infinity | 0x8000);
  }
  EXPECT_EQ(Float16Element::narrow(65519.99f), 0x7bff);
  EXPECT_EQ(Float16Element::narrow(65520.0f), 0x7c00);
}

TEST(Reduction, AddsIntegersWithWrapAround) {
  EXPECT_EQ(combined<int8_t>(ncclInt8, ncclSum, {127, -128, 1}, {1, -1, 2}),
            (std::vector<int8_t>{-128, 127, 3}));
  EXPECT_EQ(combined<uint8_t>(ncclUint8, ncclSum, {255}, {2}), std::vector<uint8_t>{1});
  EXPECT_EQ(combined<int32_t>(ncclInt32, ncclSum, {INT32_MAX}, {1}),
            std::vector<int32_t>{INT32_MIN});
  EXPECT_EQ(combined<int64_t>(ncclInt64, ncclSum, {INT64_MIN}, {-1}),
            std::vector<int64_t>{INT64_MAX});
  EXPECT_EQ(combined<int64_t>(ncclInt64, ncclProd, {INT64_MAX}, {2}), std::vector<int64_t>{-2});
}

TEST(Reduction, OrdersSignedAndUnsigned) {
  EXPECT_EQ(combined<int32_t>(ncclInt32, ncclMax, {-1, 5}, {1, -5}), (std::vector<int32_t>{1, 5}));
  EXPECT_EQ(combined<uint32_t>(ncclUint32, ncclMax, {0xffffffff}, {1}),
            std::vector<uint32_t>{0xffffffff});
  EXPECT_EQ(combined<int8_t>(ncclInt8, ncclMin, {-128}, {127}), std::vector<int8_t>{-128});
}

TEST(Reduction, PrefersNumbersToNansInMaxAndMin) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(combined<float>(ncclFloat32, ncclMax, {nan, 1, -2}, {3, nan, -3}),
            (std::vector<float>{3, 1, -2}));
  EXPECT_EQ(combined<float>(ncclFloat32, ncclMin, {nan, 1, -2}, {3, nan, -3}),
            (std::vector<float>{3, 1, -3}));
}

TEST(Reduction, AddsLongFloatsLikeTheProcessor) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> a(1001), b(1001);
  for (float& value : a) value = normal(random);
  for (float& value : b) value = normal(random);
  const std::vector<float> sum = combined(ncclFloat32, ncclSum, a, b);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(sum[i], a[i] + b[i]);
}

// 1/3 rounded to the type, the product rounded, then the sum rounded.
TEST(Reduction, AveragesFloatsByScalingInputs) {
  const float third = 1.0f / 3;
  EXPECT_EQ(combined<float>(ncclFloat32, ncclAvg, {0.7f}, {5.3f}, 3),
            std::vector<float>{0.7f + 5.3f * third});
  const uint16_t own = Bfloat16Element::narrow(5.3f);
  const float shortThird = Bfloat16Element::widen(Bfloat16Element::narrow(third));
  const uint16_t scaled = Bfloat16Element::narrow(Bfloat16Element::widen(own) * shortThird);
  const uint16_t received = Bfloat16Element::narrow(0.7f);
  const float sum = Bfloat16Element::widen(received) + Bfloat16Element::widen(scaled);
  EXPECT_EQ(combined<uint16_t>(ncclBfloat16, ncclAvg, {received}, {own}, 3),
            std::vector<uint16_t>{Bfloat16Element::narrow(sum)});
  uint16_t loaded = 0;
  const uint64_t shortScalar = averageScalar(ncclBfloat16, 3);
  findReduction(ncclBfloat16, ncclAvg)->load(&own, &loaded, 1, &shortScalar);
  EXPECT_EQ(loaded, scaled);
}

// Products of integers wrap round as their sums do.
TEST(Reduction, ScalesIntegersBeforeTheSum) {
  const int8_t scalar = 3;
  const std::vector<int8_t> own = {100, -5, 43}, received = {1, 1, -1};
  std::vector<int8_t> sum(3);
  const Reduction* reduction = findReduction(ncclInt8, kPreMulSum);
  reduction->combine(received.data(), own.data(), sum.data(), 3, &scalar);
  EXPECT_EQ(sum, (std::vector<int8_t>{45, -14, -128}));
  reduction->load(own.data(), sum.data(), 3, &scalar);
  EXPECT_EQ(sum, (std::vector<int8_t>{44, -15, -127}));
}

TEST(Reduction, AveragesIntegersAtTheEndTowardsZero) {
  std::vector<int8_t> values = {-7, 7, 100, -128};
  const Reduction* average = findReduction(ncclInt8, ncclAvg);
  average->finish(values.data(), values.size(), 200);
  EXPECT_EQ(values, (std::vector<int8_t>{0, 0, 0, 0})) << "more ranks than the type can count";
  values = {-7, 7, 100, -128};
  average->finish(values.data(), values.size(), 3);
  EXPECT_EQ(values, (std::vector<int8_t>{-2, 2, 33, -42}));
  std::vector<uint64_t> large = {UINT64_MAX};
  findReduction(ncclUint64, ncclAvg)->finish(large.data(), 1, 2);
  EXPECT_EQ(large[0], UINT64_MAX / 2);
}

TEST(Reduction, OfUnknownTypesAndOperationsIsNone) {
  EXPECT_EQ(findReduction(ncclFloat8e4m3, ncclSum), nullptr);
  EXPECT_EQ(findReduction(ncclFloat8e5m2, ncclMax), nullptr);
  EXPECT_EQ(findReduction(static_cast<ncclDataType_t>(15), ncclSum), nullptr);
  EXPECT_EQ(findReduction(ncclFloat32, static_cast<ncclRedOp_t>(kPreMulSum + 1)), nullptr);
  EXPECT_EQ(findReduction(ncclFloat32, ncclMaxRedOp), nullptr);
  EXPECT_EQ(elementBytes(static_cast<ncclDataType_t>(12)), 0u);
  EXPECT_EQ(elementBytes(static_cast<ncclDataType_t>(15)), 0u);
  EXPECT_EQ(elementBytes(ncclFloat8e4m3), 1u);
}

}  // namespace
}  // namespace cinch::emulator
