#include "examples/lm/adam.h"

#include <gtest/gtest.h>

#include <cmath>

#include "examples/lm/random.h"

namespace lm {
namespace {

TEST(Adam, FollowsTheTextbookInDoublePrecision) {
  constexpr size_t kCount = 1000;
  Adam adam(kCount);
  std::vector<float> parameters(kCount, 0.5f), gradient(kCount);
  std::vector<double> exact(kCount, 0.5), mean(kCount), square(kCount);
  for (int step = 1; step <= 50; ++step) {
    const float rate = 1e-3f * static_cast<float>(step);
    for (size_t i = 0; i < kCount; ++i) {
      const auto stream = static_cast<uint64_t>(step);
      gradient[i] =
          randomSigned(randomBits(1, stream, i)) * std::pow(10.0f, -static_cast<float>(i % 6));
      mean[i] = 0.9 * mean[i] + 0.1 * gradient[i];
      square[i] = 0.99 * square[i] + 0.01 * gradient[i] * gradient[i];
      exact[i] -= rate * (mean[i] / (1 - std::pow(0.9, step))) /
                  (std::sqrt(square[i] / (1 - std::pow(0.99, step))) + 1e-8);
    }
    adam.update(gradient, rate, parameters);
  }
  for (size_t i = 0; i < kCount; ++i) ASSERT_NEAR(parameters[i], exact[i], 2e-4) << i;
}

TEST(Adam, FirstStepHasTheLengthOfTheRate) {
  Adam adam(2);
  std::vector<float> parameters{0, 0};
  adam.update(std::vector<float>{3e-4f, -70.0f}, 0.01f, parameters);
  EXPECT_NEAR(parameters[0], -0.01, 1e-5);
  EXPECT_NEAR(parameters[1], 0.01, 1e-5);
}

TEST(Adam, ZeroGradientMovesNothing) {
  Adam adam(3);
  std::vector<float> parameters{1, 2, 3};
  adam.update(std::vector<float>(3, 0.0f), 0.1f, parameters);
  EXPECT_EQ(parameters, (std::vector<float>{1, 2, 3}));
}

TEST(LearningRate, WarmsUpThenFalls) {
  EXPECT_FLOAT_EQ(learningRate(0, 200, 1.0f), 0.1f);
  EXPECT_FLOAT_EQ(learningRate(9, 200, 1.0f), 1.0f);
  EXPECT_FLOAT_EQ(learningRate(10, 200, 1.0f), 1.0f);
  EXPECT_NEAR(learningRate(105, 200, 1.0f), 0.5, 1e-6);
  for (int step = 11; step < 200; ++step)
    ASSERT_LT(learningRate(step, 200, 1.0f), learningRate(step - 1, 200, 1.0f));
  EXPECT_GT(learningRate(199, 200, 1.0f), 0.0f);
}

TEST(LearningRate, IsPositiveInTheShortestRuns) {
  for (int steps = 1; steps < 50; ++steps)
    for (int step = 0; step < steps; ++step) {
      ASSERT_GT(learningRate(step, steps, 1.0f), 0.0f) << step << " of " << steps;
      ASSERT_LE(learningRate(step, steps, 1.0f), 1.0f) << step << " of " << steps;
    }
}

}  // namespace
}  // namespace lm
