#include "interpose/policy/value_evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace cinch {
namespace {

using Values = std::vector<float>;
constexpr size_t kValues = 4096;
constexpr SampledRuns kRuns{1024};

class Noise {
 public:
  explicit Noise(uint32_t seed) : random_(seed) {}
  Values operator()(double scale = 1, size_t n = kValues) {
    std::normal_distribution<double> normal;
    Values values(n);
    for (float& value : values) value = static_cast<float>(scale * normal(random_));
    return values;
  }

 private:
  std::mt19937 random_;
};

Values operator+(Values a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}
Values operator*(Values a, float factor) {
  for (float& value : a) value *= factor;
  return a;
}

float toBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

// A job in which `inputOf` says what a rank gives in a step, and sums are its results.
struct Job {
  int nRanks = 2;
  bool averages = false, isBfloat16 = false;
  int nCalls = static_cast<int>(kMeasuredCalls);
  std::function<Values(int rank, int step)> inputOf;
  SampledRuns runs = kRuns;

  // What rank 0 finds of it.
  ValueVerdict judge(const Vetoes& vetoes = {}) const {
    std::vector<SampledCall> calls;
    for (int step = 0; step < nCalls; ++step) {
      std::vector<Values> inputs;
      for (int rank = 0; rank < nRanks; ++rank) inputs.push_back(rounded(inputOf(rank, step)));
      Values sum = inputs[0];
      for (int rank = 1; rank < nRanks; ++rank)
        sum = std::move(sum) + inputs[static_cast<size_t>(rank)];
      if (averages) sum = std::move(sum) * (1 / static_cast<float>(nRanks));
      calls.push_back({inputs[0], rounded(std::move(sum))});
    }
    return judgeValues(calls, runs, nRanks, vetoes);
  }

 private:
  Values rounded(Values values) const {
    if (isBfloat16) std::ranges::transform(values, values.begin(), toBfloat16);
    return values;
  }
};

Job gradients(double noise, int nRanks, bool averages = true, bool isBfloat16 = false) {
  Noise draw(7);
  const Values mean = draw();
  return {nRanks, averages, isBfloat16, 2, [=](int, int) mutable { return mean + draw(noise); }};
}

TEST(JudgeValues, CallsOfOtherPlacesSayNothing) {
  Noise draw(3);
  const auto call = [&draw](size_t n) {
    SampledCall drawn{draw(), draw()};
    drawn.input.resize(n);
    drawn.output.resize(n);
    return drawn;
  };
  const std::vector<SampledCall> calls = {call(256), call(64), call(256)};
  EXPECT_EQ(judgeValues(calls, kRuns, 2), ValueVerdict::unsuspicious);
  EXPECT_EQ(judgeValues(std::vector{call(64), call(64), call(256)}, kRuns, 2),
            ValueVerdict::tooFew);
  std::vector<SampledCall> lacking = {call(256), call(256), call(256)};
  lacking[1].input.resize(64);
  lacking[2].input.clear();
  EXPECT_EQ(judgeValues(lacking, kRuns, 2), ValueVerdict::unsuspicious);
  EXPECT_EQ(judgeValues({}, kRuns, 2), ValueVerdict::tooFew);
}

TEST(JudgeValues, GradientsWithTheNoiseOfBatchesAreUnsuspicious) {
  for (const double noise : {0.12, 0.5, 1.8, 2.2, 5.0, 50.0})
    for (const int nRanks : {2, 3, 8})
      for (const bool averages : {false, true})
        for (const bool isBfloat16 : {false, true}) {
          const Job job = gradients(noise, nRanks, averages, isBfloat16);
          const auto expected =
              noise < kLeastNoise ? ValueVerdict::steady : ValueVerdict::unsuspicious;
          EXPECT_EQ(job.judge(), expected) << noise << " among " << nRanks;
          EXPECT_EQ(job.judge({.steady = false}), ValueVerdict::unsuspicious);
        }
}

// Ranks whose data differ find different means, which are noise beside each other but not from
// step to step.
TEST(JudgeValues, WhatOnlyRanksDifferByIsSteady) {
  Noise draw(7);
  std::vector<Values> means;
  for (int rank = 0; rank < 4; ++rank) means.push_back(draw(3));
  const Job job{.nRanks = 4, .inputOf = [&](int rank, int) {
                  return means[static_cast<size_t>(rank)] + draw(0.5);
                }};
  EXPECT_EQ(job.judge(), ValueVerdict::steady);
}

TEST(JudgeValues, GradientsOfEqualBatchesAreAlike) {
  EXPECT_EQ(gradients(0, 2).judge(), ValueVerdict::alike);
  EXPECT_EQ(gradients(0.01, 4).judge(), ValueVerdict::alike);
}

TEST(JudgeValues, IdenticalRanksAreAlikeWhateverComesNext) {
  Noise draw(1);
  std::vector<Values> steps;
  for (int i = 0; i < 3; ++i) steps.push_back(draw());
  const Job job{.inputOf = [&](int, int step) { return steps[static_cast<size_t>(step)]; }};
  EXPECT_EQ(job.judge(), ValueVerdict::alike);
  EXPECT_EQ(job.judge({.alike = false}), ValueVerdict::steady);
}

TEST(JudgeValues, SuccessiveResultsThatAreAlikeAreState) {
  Noise draw(2);
  const Values state = draw(1);
  // Each rank has half of it, so that its input is unlike the result.
  const Job job{.nRanks = 2, .inputOf = [&](int rank, int) {
                  Values half = state;
                  for (size_t i = 0; i < kValues; ++i)
                    if (i % 2 == static_cast<size_t>(rank)) half[i] *= -3;
                  return half;
                }};
  EXPECT_EQ(job.judge(), ValueVerdict::alike);
}

Job weights(double change, int nRanks, bool averages = true) {
  auto mean = std::make_shared<Values>();
  auto next = std::make_shared<Values>();
  auto draw = std::make_shared<Noise>(11);
  *mean = (*draw)();
  return {nRanks, averages, false, 2, [=](int rank, int) {
            if (rank == 0 && !next->empty()) *mean = *next;
            if (rank == 0) next->assign(kValues, 0);
            const Values input = *mean + (*draw)(change);
            *next = *next + input * (1 / static_cast<float>(nRanks));
            return input;
          }};
}

// Weights whose training runs away have little in common with the last ones, but are larger.
TEST(JudgeValues, NoiseThatGrowsIsSteady) {
  for (const int nRanks : {2, 5, 8})
    for (const double growth : {0.2, 0.8, 1.0, 1.3, 4.0}) {
      Noise draw(5);
      const Job job{.nRanks = nRanks, .averages = true, .inputOf = [&](int, int step) {
                      return draw(std::pow(growth, step));
                    }};
      const bool grows = growth * growth > kMostGrowth;
      EXPECT_EQ(job.judge(), grows ? ValueVerdict::steady : ValueVerdict::unsuspicious) << growth;
    }
}

TEST(JudgeValues, WeightsAreAlikeAndFartherApartSteady) {
  for (const int nRanks : {2, 5, 8})
    for (const bool averages : {false, true}) {
      EXPECT_EQ(weights(1e-6, nRanks, averages).judge(), ValueVerdict::alike);
      EXPECT_EQ(weights(0.03, nRanks, averages).judge(), ValueVerdict::alike);
      EXPECT_EQ(weights(0.3, nRanks, averages).judge(), ValueVerdict::steady) << nRanks;
      EXPECT_EQ(weights(0.3, nRanks, averages).judge({.steady = false}),
                ValueVerdict::unsuspicious);
    }
}

TEST(JudgeValues, CountsAreIntegersAlsoAsAverages) {
  for (const int nRanks : {2, 3, 5, 8})
    for (const bool dividesFirst : {false, true}) {
      std::mt19937 random(3);
      const Job job{.nRanks = nRanks, .inputOf = [&](int, int) {
                      Values counts(kValues);
                      for (float& count : counts) count = static_cast<float>(random() % 1000);
                      return counts * (dividesFirst ? 1 / static_cast<float>(nRanks) : 1.0f);
                    }};
      EXPECT_EQ(job.judge(), ValueVerdict::integers) << nRanks << dividesFirst;
      EXPECT_NE(job.judge({.integers = false}), ValueVerdict::integers);
    }
}

TEST(JudgeValues, OneCallOfSquaresIsEnough) {
  for (const bool isNegative : {false, true}) {
    Noise draw(4);
    const Job job{.inputOf = [&](int, int step) {
      Values values = draw(5);
      if (step == 1) return values;
      for (float& value : values) value *= isNegative ? -value : value;
      return values;
    }};
    EXPECT_EQ(job.judge(), ValueVerdict::ofOneSign);
    EXPECT_NE(job.judge({.ofOneSign = false}), ValueVerdict::ofOneSign);
  }
}

TEST(JudgeValues, OneFractionIsNoCount) {
  std::mt19937 random(3);
  const Job job{.inputOf = [&](int, int) {
    Values counts(kValues);
    for (float& count : counts) count = static_cast<float>(random() % 1000);
    counts[17] = 0.25f;
    return counts;
  }};
  EXPECT_EQ(job.judge(), ValueVerdict::ofOneSign);
}

// Runs of 1,024 values each belong to one of the ranks.
Job gathered(int nRanks, bool averages, bool isBfloat16) {
  Noise draw(5);
  return {nRanks, averages, isBfloat16, 2, [=](int rank, int) mutable {
            Values own = draw(1, 8 * 1024);
            for (size_t i = 0; i < own.size(); ++i)
              if (static_cast<int>(i / 1024) % nRanks != rank) own[i] = 0;
            return own;
          }};
}

TEST(JudgeValues, PartsOfOneRankEachAreGathered) {
  for (const int nRanks : {2, 3, 8})
    for (const bool averages : {false, true})
      for (const bool isBfloat16 : {false, true}) {
        EXPECT_EQ(gathered(nRanks, averages, isBfloat16).judge(), ValueVerdict::gatheredBySums);
        EXPECT_EQ(gathered(nRanks, averages, isBfloat16).judge({.gatheredBySums = false}),
                  ValueVerdict::unsuspicious);
      }
}

TEST(JudgeValues, ARankThatHasNothingSeesNothingOfIt) {
  Noise draw(6);
  const Job job{.inputOf = [&](int rank, int) { return rank == 0 ? Values(kValues) : draw(); }};
  EXPECT_EQ(job.judge(), ValueVerdict::unsuspicious);
}

// Rows of 32 values, of which each rank's batch has some.
TEST(JudgeValues, AnEmbeddingIsNoGather) {
  for (const double missing : {0.3, 0.6, 0.8}) {
    Noise draw(8);
    std::mt19937 random(9);
    const Job job{.inputOf = [&](int, int) {
      Values rows = draw(1, 32 * 1024);
      for (size_t row = 0; row < 1024; ++row)
        if (std::generate_canonical<double, 32>(random) < missing)
          std::fill_n(rows.begin() + static_cast<ptrdiff_t>(32 * row), 32, 0.0f);
      return rows;
    }};
    EXPECT_EQ(job.judge(), ValueVerdict::unsuspicious) << missing;
  }
}

TEST(JudgeValues, TooFewValuesSayNothing) {
  const auto of = [](size_t nNonZero) {
    Noise draw(10);
    return Job{.inputOf = [=](int, int) mutable {
      Values values = draw();
      std::fill(values.begin() + static_cast<ptrdiff_t>(nNonZero), values.end(), 0.0f);
      return values;
    }};
  };
  EXPECT_EQ(of(0).judge(), ValueVerdict::tooFew);
  EXPECT_EQ(of(31).judge(), ValueVerdict::tooFew);
  EXPECT_NE(of(32).judge(), ValueVerdict::tooFew);
  Job once = gradients(1, 2);
  once.nCalls = 1;
  EXPECT_EQ(once.judge(), ValueVerdict::tooFew);
  EXPECT_EQ(judgeValues({}, kRuns, 2), ValueVerdict::tooFew);
}

TEST(JudgeValues, CallsWithValuesThatAreNotFiniteAreNotMeasured) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto in = [value](int nSteps) {
      Noise draw(12);
      return Job{.inputOf = [=](int rank, int step) mutable {
        Values values = draw();
        if (rank == 1 && step < nSteps) values[5] = value;
        return values;
      }};
    };
    EXPECT_EQ(in(0).judge(), ValueVerdict::unsuspicious);
    EXPECT_EQ(in(1).judge(), ValueVerdict::tooFew);
  }
}

TEST(JudgeValues, OneCallIsEnoughForAVeto) {
  Job once = gradients(0, 2);
  once.nCalls = 1;
  EXPECT_EQ(once.judge(), ValueVerdict::alike);
}

TEST(JudgeValues, ZerosBetweenStepsAreLeftOut) {
  Noise draw(13);
  const Job job{.nCalls = 3,
                .inputOf = [&](int, int step) { return step == 1 ? Values(kValues) : draw(); }};
  EXPECT_EQ(job.judge(), ValueVerdict::unsuspicious) << "an unused parameter";
}

TEST(JudgeGather, WeightsThatAreTrainedAreAlikeAndFeaturesDiffer) {
  Noise noise(3);
  const Values weights = noise();
  const auto judged = [](const std::vector<Values>& gathered) {
    std::vector<SampledCall> calls;
    for (const Values& values : gathered) calls.push_back({{}, values});
    return judgeGather(calls);
  };
  const Values next = weights + noise(0.03);
  EXPECT_EQ(judged({weights, next, weights}), GatherVerdict::alike);
  EXPECT_EQ(judged({noise(), noise(), noise()}), GatherVerdict::different);
  EXPECT_EQ(judged({weights, next, noise()}), GatherVerdict::unknown);
  EXPECT_EQ(judged({weights, weights + noise(0.2)}), GatherVerdict::unknown) << "large steps";
}

TEST(JudgeGather, NothingIsKnownOfOneGatherOrOfZeros) {
  Noise noise(3);
  const Values weights = noise(), zeros(kValues);
  EXPECT_EQ(judgeGather({}), GatherVerdict::unknown);
  EXPECT_EQ(judgeGather(std::vector<SampledCall>{{{}, weights}}), GatherVerdict::unknown);
  EXPECT_EQ(judgeGather(std::vector<SampledCall>{{{}, zeros}, {{}, zeros}}),
            GatherVerdict::unknown);
  EXPECT_EQ(judgeGather(std::vector<SampledCall>{{{}, weights}, {{}, noise(1, 64)}}),
            GatherVerdict::unknown);
}

}  // namespace
}  // namespace cinch
