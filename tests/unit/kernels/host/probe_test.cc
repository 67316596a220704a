// Probes on the CPU: strangers, jumps and residuals that have grown, and what becomes of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/core/call_state.h"
#include "kernels/core/probe.h"
#include "tests/unit/kernels/data_sets.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

constexpr uint64_t kTile = wire::kTileElems;
const host::HostCodec& codec = host::fastestHostCodec();

// One slot of one rank, call by call.
class Slot {
 public:
  explicit Slot(uint64_t count, ElementType type = ElementType::fp32,
                ResidualType residualType = ResidualType::fp32)
      : call{{count, 1, codec::formatOf("q4")}, type, 1, 2, &state, &fault},
        residualType(residualType),
        residual(toResidual(residualType, std::vector<float>(count, 0.0f))) {
    state.ordinal = 1;
    state.poisonOrdinal = 0;
  }
  Slot(const Slot&) = delete;

  // A whole call, as far as a probe can tell. Returns whether it takes its residual.
  bool takes(const std::vector<float>& values) {
    probe(values);
    const bool isPoisoned = core::isPoisoned(state);
    ++state.ordinal;
    return !isPoisoned;
  }

  void probe(const std::vector<float>& values) {
    input = toElements(call.type, values);
    codec.probeInput({.call = call,
                      .input = input.data(),
                      .residual = residual.data(),
                      .residualType = residualType,
                      .probe = &probed});
  }

  std::vector<uint8_t> encode(bool hasFeedback) {
    std::vector<uint8_t> output(call.layout.totalBytes());
    codec.encodeShards({.call = call,
                        .input = input.data(),
                        .residual = hasFeedback ? residual.data() : nullptr,
                        .rule = {.gain = 0.5f, .residualType = residualType},
                        .output = output.data()});
    return output;
  }

  SlotState state{};
  ProbeState probed{};
  uint32_t fault = 0;
  CallContext call;
  ResidualType residualType;
  std::vector<uint8_t> input, residual;
};

// Layers of equal size, whose scales are drawn over two decades.
class Layers {
 public:
  Layers(uint32_t nLayers, uint32_t nTiles, uint32_t seed)
      : random_(seed), noise_(gaussian(kTile, 99)), nTiles_(nTiles), scales_(nLayers) {
    draw();
  }

  void draw() {
    std::uniform_real_distribution<float> exponent(-4.0f, -2.0f);
    for (float& scale : scales_) scale = std::pow(10.0f, exponent(random_));
  }
  // In no step the same; never the order that it was.
  void permute() {
    const auto before = scales_;
    while (scales_ == before) std::shuffle(scales_.begin(), scales_.end(), random_);
  }

  // A step's gradient: a tile's power is off by a factor of 2^0.7 in the mean, as in training.
  std::vector<float> step(float factor = 1.0f) {
    std::normal_distribution<float> level(0.0f, 0.7f);
    std::vector<float> values(nTiles_ * kTile);
    for (uint32_t tile = 0; tile < nTiles_; ++tile) {
      const float scale =
          factor * scales_[tile * scales_.size() / nTiles_] * std::exp2(level(random_) / 2);
      for (size_t i = 0; i < kTile; ++i) values[tile * kTile + i] = scale * noise_[i];
    }
    return values;
  }

 private:
  std::mt19937 random_;
  std::vector<float> noise_;
  uint32_t nTiles_;
  std::vector<float> scales_;
};

TEST(Probe, StepsOfTheSameLayersAreNoStrangers) {
  uint32_t nSteps = 0;
  for (const uint32_t nTiles : {16u, 64u, 100u}) {
    Slot slot(nTiles * kTile);
    Layers layers(8, nTiles, nTiles);
    for (int step = 0; step < 300; ++step) slot.takes(layers.step());
    EXPECT_EQ(slot.probed.nCalls, 300u);
    EXPECT_EQ(slot.probed.nOverflows, 0u);
    nSteps += slot.probed.nStrangers;
  }
  EXPECT_LE(nSteps, 4u) << "of 900";
}

TEST(Probe, PermutedLayersAreStrangersAtTheFirstCall) {
  for (const uint32_t nLayers : {16u, 64u}) {
    uint32_t nMissed = 0;
    for (uint32_t trial = 0; trial < 1000; ++trial) {
      Slot slot(64 * kTile);
      Layers layers(nLayers, 64, trial);
      ASSERT_TRUE(slot.takes(layers.step()));
      layers.permute();
      nMissed += slot.takes(layers.step());
    }
    EXPECT_LE(nMissed, 1u) << nLayers << " layers";
  }
}

TEST(Probe, OtherLayersAreStrangersAtTheFirstCall) {
  uint32_t nMissed = 0;
  for (uint32_t trial = 0; trial < 1000; ++trial) {
    Slot slot(64 * kTile);
    Layers layers(12, 64, trial);
    ASSERT_TRUE(slot.takes(layers.step()));
    layers.draw();
    nMissed += slot.takes(layers.step());
  }
  EXPECT_LE(nMissed, 1u);
}

TEST(Probe, JumpsOfTheLossScaleAreSeenOnce) {
  for (const ElementType type : {ElementType::fp32, ElementType::bf16})
    for (const float jump : {2.0f, 0.5f, 65536.0f, 1.0f / 65536}) {
      SCOPED_TRACE(nameOf(type) + ", " + std::to_string(jump));
      const auto values = layered(70 * kTile, 3);
      auto jumped = values;
      for (float& value : jumped) value *= jump;
      Slot slot(values.size(), type);
      EXPECT_TRUE(slot.takes(values));
      EXPECT_TRUE(slot.takes(values));
      EXPECT_FALSE(slot.takes(jumped));
      for (uint32_t call = 0; call < core::kCallsPerStranger; ++call)
        ASSERT_TRUE(slot.takes(jumped)) << "the new scale is the usual one";
      EXPECT_FALSE(slot.takes(values));
      EXPECT_TRUE(slot.takes(jumped)) << "a buffer that is another's all the time is none";
      EXPECT_EQ(slot.probed.nStrangers, 2u);
    }
}

// The data changes: some layers lie still, others wake up.
TEST(Probe, AShiftedDistributionIsAStranger) {
  const auto values = layered(64 * kTile, 4);
  for (const float factor : {0.0f, 0.1f, 30.0f}) {
    auto shifted = values;
    for (size_t i = 0; i < shifted.size() * 2 / 5; ++i) shifted[i] *= factor;
    Slot slot(values.size());
    EXPECT_TRUE(slot.takes(values));
    EXPECT_EQ(slot.takes(shifted), factor == 0.0f) << factor;
    Slot fading(values.size());
    EXPECT_TRUE(fading.takes(values));
    for (float& value : shifted) value = 0.0f;
    EXPECT_FALSE(fading.takes(shifted)) << "all went out";
  }
}

TEST(Probe, FewTilesAreLessSure) {
  Slot one(700), two(1500);
  const auto values = gaussian(1500, 1);
  auto grown = values;
  for (size_t i = 1024; i < grown.size(); ++i) grown[i] *= 10.0f;
  EXPECT_TRUE(two.takes(values));
  EXPECT_TRUE(two.takes(grown)) << "one of two";
  const std::vector<float> few(values.begin(), values.begin() + 700);
  std::vector<float> louder(few);
  for (float& value : louder) value *= 2.0f;
  EXPECT_TRUE(one.takes(few));
  EXPECT_TRUE(one.takes(few));
  EXPECT_FALSE(one.takes(louder));
}

TEST(Probe, NothingIsNoStranger) {
  Slot none(0), zeros(3000);
  for (int call = 0; call < 3; ++call) {
    EXPECT_TRUE(none.takes({}));
    EXPECT_TRUE(zeros.takes(std::vector<float>(3000, 0.0f)));
  }
  EXPECT_EQ(zeros.probed.levels[2], -std::numeric_limits<float>::infinity());
}

TEST(Probe, WhatIsNotFiniteLeavesEverythingAsItWas) {
  const auto values = gaussian(5000, 1);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    auto spoilt = values;
    spoilt[4999] = bad;
    for (float& value : spoilt) value *= 100.0f;
    Slot slot(values.size());
    EXPECT_TRUE(slot.takes(spoilt)) << "the first";
    EXPECT_TRUE(slot.takes(values)) << "knows nobody yet";
    const ProbeState before = slot.probed;
    EXPECT_TRUE(slot.takes(spoilt));
    EXPECT_EQ(std::memcmp(&before, &slot.probed, sizeof before), 0);
    EXPECT_TRUE(slot.takes(values));
  }
}

TEST(Probe, LevelsAreOfThePowerAfterTheFactor) {
  Slot slot(2 * kTile + 100, ElementType::bf16);
  slot.input = toElements(ElementType::bf16, std::vector<float>(2 * kTile + 100, 2.0f));
  const auto factor = toElements(ElementType::bf16, {4.0f});
  codec.probeInput({.call = slot.call,
                    .input = slot.input.data(),
                    .inputFactor = {.device = factor.data()},
                    .residual = slot.residual.data(),
                    .residualType = slot.residualType,
                    .probe = &slot.probed});
  EXPECT_EQ(slot.probed.levels[0], 16.0f) << "1024 x 8^2";
  EXPECT_EQ(slot.probed.levels[1], 16.0f);
  EXPECT_NEAR(slot.probed.levels[2], std::log2(100 * 64.0), 0.01);
  EXPECT_EQ(slot.probed.levels[3], 0.0f) << "there is no fourth tile";
}

// However it is stored; a call that finds it too large does without, and says so.
class ProbedResidual : public testing::TestWithParam<std::tuple<ElementType, ResidualType>> {
 protected:
  static constexpr uint64_t kCount = 5000;
  void keep(Slot& slot, const std::vector<float>& values) {
    slot.residual = toResidual(slot.residualType, values);
  }
  Slot slot_{kCount, std::get<0>(GetParam()), std::get<1>(GetParam())};
};

TEST_P(ProbedResidual, OutOfProportionIsDropped) {
  const auto values = gaussian(kCount, 1);
  keep(slot_, gaussian(kCount, 2, 4.5f));
  EXPECT_TRUE(slot_.takes(values)) << "|e| = 4.5 |g|";
  keep(slot_, gaussian(kCount, 2, 5.5f));
  EXPECT_FALSE(slot_.takes(values)) << "|e| = 5.5 |g|";
  EXPECT_EQ(slot_.probed.nOverflows, 1u);
}

TEST_P(ProbedResidual, IsNotWeighedAgainstZeros) {
  keep(slot_, gaussian(kCount, 2, 100.0f));
  EXPECT_TRUE(slot_.takes(std::vector<float>(kCount, 0.0f)));
  EXPECT_EQ(slot_.probed.nOverflows, 0u);
}

TEST_P(ProbedResidual, NanIsDropped) {
  if (slot_.residualType == ResidualType::int8)
    slot_.residual[0] = 0xff, slot_.residual[1] = 0x7f;  // a marked block
  else
    for (size_t i = 0; i < 4; ++i) slot_.residual[i] = 0xff;
  EXPECT_FALSE(slot_.takes(gaussian(kCount, 1)));
  EXPECT_EQ(slot_.probed.nOverflows, 1u);
}

// What the poison is for: the code of the call is that of one without a residual.
TEST_P(ProbedResidual, APoisonedCallEncodesWithoutIt) {
  const auto values = gaussian(kCount, 1);
  auto louder = values;
  for (float& value : louder) value *= 4.0f;
  keep(slot_, gaussian(kCount, 2, 0.5f));
  slot_.probe(values);
  const auto alone = slot_.encode(false);
  EXPECT_NE(slot_.encode(true), alone) << "an ordinary call takes it";
  core::endCall(slot_.state, true);

  keep(slot_, gaussian(kCount, 3, 0.5f));
  slot_.probe(louder);
  ASSERT_TRUE(core::isPoisoned(slot_.state));
  const auto expected = slot_.encode(false);
  EXPECT_EQ(slot_.encode(true), expected);
  core::endCall(slot_.state, true);

  const auto left = fromResidual(slot_.residualType, slot_.residual.data(), kCount);
  const auto [low, high] = std::minmax_element(louder.begin(), louder.end());
  for (const float each : left) ASSERT_LT(std::abs(each), (*high - *low) / 25);
  slot_.probe(louder);
  EXPECT_FALSE(core::isPoisoned(slot_.state)) << "the next call is an ordinary one";
}

INSTANTIATE_TEST_SUITE_P(All, ProbedResidual,
                         testing::Combine(testing::ValuesIn(kTypes),
                                          testing::ValuesIn(kResidualTypes)),
                         [](const auto& info) {
                           return nameOf(std::get<0>(info.param)) + "_" +
                                  nameOf(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace cinch::test
