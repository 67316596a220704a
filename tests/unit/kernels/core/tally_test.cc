#include "kernels/core/tally.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/unit/kernels/data_sets.h"
#include "tests/unit/kernels/statistics_differential.h"

namespace cinch::core {
namespace {

using test::awkward, test::fromElements, test::gaussian, test::kTypes, test::talliesOf,
    test::toElements;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const host::HostCodec& codec = host::fastestHostCodec();

TEST(LaneSum, AddsPlaceByPlaceThenHalfByHalf) {
  // 2^24 swallows a one that is added to it.
  constexpr float kLarge = 0x1p24f;
  const float ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
  const float first[] = {kLarge, 0, 0, 0, 1, 0, 0, 0}, second[] = {1, 0, 0, 0, 1, 0, 0, 0};
  LaneSum sum;
  sum.addProducts(first, ones);
  sum.addProducts(ones, second);
  EXPECT_EQ(sum.total(), kLarge + 2.0f) << "1 + 1 at place 4, then + 2^24";
  const float third[] = {kLarge, 1, 1, 0, 0, 0, 0, 0};
  LaneSum other;
  other.addProducts(third, ones);
  EXPECT_EQ(other.total(), kLarge) << "places 0 and 2 first";
}

TEST(Tally, WidthsAreOfWhatExists) {
  EXPECT_EQ(squaredWidth({}), 0.0f);
  const auto range = ValueRange::of(-1.0f).mergedWith(ValueRange::of(2.0f));
  EXPECT_EQ(squaredWidth(range), 9.0f);
  EXPECT_TRUE(std::isnan(squaredWidth(range.mergedWith(ValueRange::of(kNan)))));
  EXPECT_EQ(squaredWidth(range.mergedWith(ValueRange::of(kInfinity))), kInfinity);
}

TEST(Tally, NansAreCanonical) {
  const float odd = floatOfBits(0xffc01234);
  const TileTally tally = canonical({odd, odd, odd, odd, odd});
  for (const float each :
       {tally.power, tally.squaredRanges, tally.otherPower, tally.product, tally.error})
    EXPECT_EQ(bitsOfFloat(each), 0x7fc00000u);
}

// What the header says, word by word.
class PlainTally {
 public:
  PlainTally(const float* values, const float* others, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
      values_[i] = values[i];
      others_[i] = others ? others[i] : 0.0f;
    }
    nValues_ = n;
  }

  // Of f(value, other).
  template <class Function>
  float sum(const Function& f) const {
    float rows[8];
    for (uint32_t row = 0; row < 8; ++row) {
      float lanes[4];
      for (uint32_t lane = 0; lane < 4; ++lane) lanes[lane] = ofLane(row, lane, f);
      rows[row] = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
    }
    return ofRows(rows);
  }

  float squaredRanges() const {
    float rows[8] = {};
    for (uint32_t row = 0; row * 128 < nValues_; ++row) {
      const auto begin = values_ + row * 128, end = std::min(begin + 128, values_ + nValues_);
      const float width = *std::max_element(begin, end) - *std::min_element(begin, end);
      rows[row] = width * width;
    }
    return ofRows(rows);
  }

 private:
  template <class Function>
  float ofLane(uint32_t row, uint32_t lane, const Function& f) const {
    float at[8] = {};
    for (uint32_t octet = lane; octet < 16; octet += 4)
      for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t index = row * 128 + octet * 8 + i;
        at[i] += f(values_[index], others_[index]);
      }
    for (uint32_t distance = 4; distance > 0; distance /= 2)
      for (uint32_t i = 0; i < distance; ++i) at[i] += at[i + distance];
    return at[0];
  }

  static float ofRows(const float (&rows)[8]) {
    return ((rows[0] + rows[4]) + (rows[2] + rows[6])) +
           ((rows[1] + rows[5]) + (rows[3] + rows[7]));
  }

  float values_[1024] = {};
  float others_[1024] = {};
  uint32_t nValues_;
};

TEST(Tally, TheHostAddsInTheWrittenOrder) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const uint64_t count = 1 + seed * 419 % 3000;
    const auto values = gaussian(count, seed), others = gaussian(count, seed + 1000);
    const auto found = talliesOf(codec, ElementType::fp32, count, values.data(),
                                 seed % 2 ? others.data() : nullptr);
    for (uint64_t first = 0; first < count; first += 1024) {
      const PlainTally plain(&values[first], seed % 2 ? &others[first] : nullptr,
                             static_cast<uint32_t>(std::min<uint64_t>(1024, count - first)));
      const TileTally& tile = found[first / 1024];
      EXPECT_EQ(tile.power, plain.sum([](float v, float) { return v * v; }));
      EXPECT_EQ(tile.squaredRanges, plain.squaredRanges());
      if (seed % 2 == 0) continue;
      EXPECT_EQ(tile.otherPower, plain.sum([](float, float o) { return o * o; }));
      EXPECT_EQ(tile.product, plain.sum([](float v, float o) { return v * o; }));
      EXPECT_EQ(tile.error, plain.sum([](float v, float o) { return (v - o) * (v - o); }));
    }
  }
}

// The sums in double, and of magnitudes, which rounding errors are measured by.
struct ExactTally {
  double power = 0, squaredRanges = 0, otherPower = 0, product = 0, error = 0, magnitude = 0;

  ExactTally(const float* values, const float* others, uint64_t n, double factor) {
    for (uint64_t first = 0; first < n; first += 128) {
      double low = INFINITY, high = -INFINITY;
      for (uint64_t i = first; i < std::min(first + 128, n); ++i) {
        const double v = static_cast<float>(values[i] * factor), o = others ? others[i] : 0.0;
        power += v * v;
        otherPower += o * o;
        product += v * o;
        error += others ? (v - o) * (v - o) : 0.0;
        magnitude += std::abs(v * o);
        low = std::min(low, v);
        high = std::max(high, v);
      }
      squaredRanges += (high - low) * (high - low);
    }
  }

  void expectNear(const TileTally& tile) const {
    constexpr double kTolerance = 2e-6;
    EXPECT_NEAR(tile.power, power, kTolerance * power);
    EXPECT_NEAR(tile.squaredRanges, squaredRanges, kTolerance * squaredRanges);
    EXPECT_NEAR(tile.otherPower, otherPower, kTolerance * otherPower);
    EXPECT_NEAR(tile.product, product, kTolerance * magnitude);
    EXPECT_NEAR(tile.error, error, kTolerance * error);
  }
};

void expectExact(ElementType type, uint64_t count, bool hasOthers, float factor) {
  SCOPED_TRACE(test::nameOf(type) + " " + std::to_string(count));
  const auto seed = static_cast<uint32_t>(count);
  const auto values = toElements(type, gaussian(count, seed));
  const auto others = toElements(type, gaussian(count, seed + 1, 2.0f));
  const auto v = fromElements(type, values.data(), count);
  const auto o = fromElements(type, others.data(), count);
  const auto found = talliesOf(codec, type, count, values.data(),
                               hasOthers ? others.data() : nullptr, {.value = factor});
  ASSERT_EQ(found.size(), (count + 1023) / 1024);
  for (uint64_t first = 0; first < count; first += 1024)
    ExactTally(&v[first], hasOthers ? &o[first] : nullptr, std::min<uint64_t>(1024, count - first),
               factor)
        .expectNear(found[first / 1024]);
}

TEST(Tally, IsRightForEveryCount) {
  for (uint64_t count = 1; count <= 5000 && !testing::Test::HasFailure();
       count += count < 300 ? 1 : 7)
    for (const ElementType type : kTypes)
      expectExact(type, count, count % 3 != 0, count % 2 ? 1.0f : -0.3f);
}

TEST(Tally, OfNothingWritesNothing) {
  EXPECT_TRUE(talliesOf(codec, ElementType::fp32, 0, nullptr, nullptr).empty());
  codec.tallyTiles({nullptr, nullptr, 0, ElementType::bf16, {}, nullptr});
}

TEST(Tally, ZerosMakeZeros) {
  std::vector<float> zeros(2000, 0.0f);
  for (size_t i = 0; i < zeros.size(); i += 3) zeros[i] = -0.0f;
  for (const TileTally& tile :
       talliesOf(codec, ElementType::fp32, zeros.size(), zeros.data(), zeros.data()))
    for (const float each :
         {tile.power, tile.squaredRanges, tile.otherPower, tile.product, tile.error})
      EXPECT_EQ(bitsOfFloat(each), 0u);
}

TEST(Tally, OthersThatAreNotThereMakeZeros) {
  const auto values = gaussian(1500, 1);
  for (const TileTally& tile : talliesOf(codec, ElementType::fp32, 1500, values.data(), nullptr)) {
    EXPECT_GT(tile.power, 0.0f);
    for (const float each : {tile.otherPower, tile.product, tile.error}) EXPECT_EQ(each, 0.0f);
  }
}

TEST(Tally, DenormalsCount) {
  const std::vector<float> values(1024, 0x1p-70f), others(1024, 0x1p-74f);
  const auto tile = talliesOf(codec, ElementType::fp32, 1024, values.data(), others.data()).front();
  EXPECT_EQ(tile.power, 0x1p-130f);
  EXPECT_EQ(tile.product, 0x1p-134f);
  EXPECT_EQ(tile.otherPower, 0x1p-138f);
}

// Every place in turn.
TEST(Tally, WhatIsNotFiniteMakesSumsThatAreNot) {
  for (const ElementType type : kTypes)
    for (const float bad : {kNan, kInfinity, -kInfinity})
      for (uint32_t place = 0; place < 1100; place += 7) {
        auto values = gaussian(1100, place);
        const auto fine = toElements(type, values);
        values[place] = bad;
        const auto spoilt = toElements(type, values);
        const auto tile = talliesOf(codec, type, 1100, spoilt.data(), fine.data())[place / 1024];
        for (const float each : {tile.power, tile.squaredRanges, tile.product, tile.error})
          EXPECT_FALSE(isFinite(each)) << place;
        EXPECT_TRUE(isFinite(tile.otherPower));
        const auto beside = talliesOf(codec, type, 1100, fine.data(), spoilt.data())[place / 1024];
        for (const float each : {beside.otherPower, beside.product, beside.error})
          EXPECT_FALSE(isFinite(each)) << place;
        EXPECT_TRUE(isFinite(beside.power) && isFinite(beside.squaredRanges));
      }
}

TEST(Tally, TheFactorMayLieInDeviceMemory) {
  const auto values = toElements(ElementType::bf16, gaussian(3000, 5));
  const auto factor = toElements(ElementType::bf16, {0.25f});
  const auto with = talliesOf(codec, ElementType::bf16, 3000, values.data(), values.data(),
                              {.value = 7.0f, .device = factor.data()});
  const auto without = talliesOf(codec, ElementType::bf16, 3000, values.data(), values.data());
  for (size_t tile = 0; tile < with.size(); ++tile) {
    EXPECT_EQ(with[tile].power, without[tile].power / 16);
    EXPECT_EQ(with[tile].squaredRanges, without[tile].squaredRanges / 16);
    EXPECT_EQ(with[tile].product, without[tile].product / 4);
    EXPECT_EQ(with[tile].otherPower, without[tile].otherPower);
  }
}

}  // namespace
}  // namespace cinch::core
