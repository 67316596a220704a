#include "examples/lm/byte_lm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "examples/lm/random.h"

namespace lm {
namespace {

constexpr Shape kSmall{.context = 4, .embedding = 3, .hidden = 16};

Batch randomBatch(size_t size, uint64_t seed) {
  Batch batch;
  for (size_t i = 0; i < size * kSmall.context; ++i)
    batch.contexts.push_back(static_cast<uint8_t>(randomBelow(randomBits(seed, 1, i), 20)));
  for (size_t i = 0; i < size; ++i)
    batch.targets.push_back(static_cast<uint8_t>(randomBelow(randomBits(seed, 2, i), 20)));
  return batch;
}

std::vector<float> gradientOf(ByteLm& model, const Batch& batch) {
  std::vector<float> gradient(model.parameters().size(), 1e9f);
  model.lossAndGradient(batch, gradient);
  return gradient;
}

TEST(ByteLm, HasTheParametersThatItsShapeSays) {
  const ByteLm model(kSmall, 1);
  EXPECT_EQ(model.parameters().size(),
            256u * 3 + (12u * 16 + 16) + (16u * 16 + 16) + (16u * 256 + 256));
}

TEST(ByteLm, DefaultShapeHasAtLeastFourMillionParameters) {
  EXPECT_GE(ByteLm(Shape{}, 1).parameters().size(), 4'000'000u);
}

TEST(ByteLm, StartsNearAUniformGuess) {
  ByteLm model(kSmall, 1);
  const Batch batch = randomBatch(500, 3);
  EXPECT_NEAR(model.totalLoss(batch) / 500, std::log(256.0), 0.1);
}

TEST(ByteLm, StartDependsOnTheSeedAlone) {
  const ByteLm one(kSmall, 7), same(kSmall, 7), other(kSmall, 8);
  EXPECT_TRUE(
      std::equal(one.parameters().begin(), one.parameters().end(), same.parameters().begin()));
  EXPECT_FALSE(
      std::equal(one.parameters().begin(), one.parameters().end(), other.parameters().begin()));
}

// Along random directions, so that every parameter takes part; in fp32 the difference quotient
// itself is good to about a thousandth.
TEST(ByteLm, GradientMatchesDifferenceQuotients) {
  ByteLm model(kSmall, 5);
  const Batch batch = randomBatch(32, 9);
  // Away from the start, where the last layer is near zero and little flows back.
  for (size_t i = 0; i < model.parameters().size(); ++i)
    model.parameters()[i] += 0.2f * randomSigned(randomBits(11, 0, i));
  const std::vector<float> gradient = gradientOf(model, batch);
  const std::vector<float> start(model.parameters().begin(), model.parameters().end());

  const auto lossAt = [&](uint64_t direction, float distance) {
    for (size_t i = 0; i < start.size(); ++i)
      model.parameters()[i] = start[i] + distance * randomSigned(randomBits(direction, 0, i));
    return model.totalLoss(batch) / 32;
  };
  for (uint64_t direction = 100; direction < 110; ++direction) {
    double slope = 0;
    for (size_t i = 0; i < start.size(); ++i)
      slope += static_cast<double>(gradient[i]) * randomSigned(randomBits(direction, 0, i));
    constexpr float kDistance = 1e-3f;
    const double quotient =
        (lossAt(direction, kDistance) - lossAt(direction, -kDistance)) / (2 * kDistance);
    EXPECT_NEAR(quotient, slope, 0.02 * std::abs(slope) + 2e-3) << "direction " << direction;
  }
}

// One parameter of every kind at a time: a direction could hide a small tensor.
TEST(ByteLm, GradientOfSingleParametersMatchesDifferenceQuotients) {
  ByteLm model(kSmall, 5);
  const Batch batch = randomBatch(8, 9);
  for (size_t i = 0; i < model.parameters().size(); ++i)
    model.parameters()[i] += 0.2f * randomSigned(randomBits(11, 0, i));
  const std::vector<float> gradient = gradientOf(model, batch);
  const size_t hidden = 768 + 12 * 16, second = hidden + 16 + 16 * 16,
               last = second + 16 + 16 * 256;
  const size_t target = last + batch.targets[0];
  for (const size_t i : {size_t{3} * batch.contexts[0], size_t{768}, hidden, hidden + 16, second,
                         second + 16 + batch.targets[0], target}) {
    const float old = model.parameters()[i];
    model.parameters()[i] = old + 1e-2f;
    const double above = model.totalLoss(batch) / 8;
    model.parameters()[i] = old - 1e-2f;
    const double below = model.totalLoss(batch) / 8;
    model.parameters()[i] = old;
    EXPECT_NEAR((above - below) / 2e-2, gradient[i], 0.05 * std::abs(gradient[i]) + 1e-3)
        << "parameter " << i;
  }
}

TEST(ByteLm, GradientOfABatchIsTheMeanOfItsSamples) {
  ByteLm model(kSmall, 5);
  const Batch batch = randomBatch(2, 13);
  const std::vector<float> whole = gradientOf(model, batch);
  std::vector<double> mean(whole.size());
  for (size_t sample = 0; sample < 2; ++sample) {
    Batch one;
    one.contexts.assign(
        batch.contexts.begin() + static_cast<ptrdiff_t>(sample * kSmall.context),
        batch.contexts.begin() + static_cast<ptrdiff_t>((sample + 1) * kSmall.context));
    one.targets = {batch.targets[sample]};
    const std::vector<float> part = gradientOf(model, one);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += 0.5 * part[i];
  }
  for (size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(whole[i], mean[i], 1e-5) << i;
}

TEST(ByteLm, SameInputGivesSameBits) {
  ByteLm model(kSmall, 5);
  const Batch batch = randomBatch(16, 1);
  EXPECT_EQ(gradientOf(model, batch), gradientOf(model, batch));
}

}  // namespace
}  // namespace lm
