#include "tests/identity/content.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cinch::identity {
namespace {

constexpr size_t kRow = 8;  // of an embedding
constexpr float kMostCounted = 40;

// As many as make noise certain to some percent, and a run of each rank's.
size_t valuesOf(const Nature& nature, size_t nRanks) {
  if (nature.isOwned) return std::max<size_t>(3, nRanks) * kRun;
  return (nature.missing > 0 ? 16 : 8) * kRun;
}

}  // namespace

// What is less noisy is not sure to be told from weights.
Nature gradients(Random& random, bool canSee) {
  const auto noise = static_cast<float>(random.logUniform(canSee ? 0.15 : 1.5 * kLeastNoise, 10));
  return {.turning = static_cast<float>(random.uniform(0, 0.01)), .noise = noise};
}

Nature gradientsOfLittleNoise(Random& random) {
  Nature nature = gradients(random);
  nature.noise = static_cast<float>(random.logUniform(0.15, kLeastNoise / 1.5));
  return nature;
}

Nature sparseGradients(Random& random, bool canSee) {
  Nature nature = gradients(random, canSee);
  nature.noise = std::max(nature.noise, 0.5f);
  nature.missing = static_cast<float>(random.uniform(0.1, 0.5));
  return nature;
}

// Beyond this, see weights.cc.
Nature weights(Random& random) {
  const auto change = static_cast<float>(random.logUniform(1e-6, 0.03));
  return {.kept = 1, .mean = change * static_cast<float>(random.uniform()), .noise = change};
}

Nature slowState(Random& random) {
  const auto noise = static_cast<float>(random.logUniform(1e-5, 0.02));
  switch (random.below(3)) {
    case 0:  // an average over many steps
      return {.kept = 0.99f, .mean = 0.01f, .noise = noise, .positive = 0.01f};
    case 1:  // sums over data that are nearly the same on each rank
      return {.noise = noise, .positive = 1};
    default:  // what an iteration converges to
      return {.noise = noise};
  }
}

Nature activations() {
  return {.mean = 0};
}

Nature squares(Random& random) {
  return {.noise = static_cast<float>(random.logUniform(0.5, 50)), .isSquared = true};
}

// Or votes, which are both.
Nature counts(Random& random) {
  return {.mean = random.oneIn(2) ? 0.0f : -1.0f, .isWhole = true};
}

Nature gatheredParts() {
  return {.mean = 0, .isOwned = true};
}

Content::Values Content::meanOf(uint64_t call) const {
  Random random(seed_);
  Values mean(average_.size());
  const float angle = nature_.turning * static_cast<float>(call);
  const float first = std::cos(angle), second = std::sin(angle);
  for (float& value : mean)
    value = nature_.positive + nature_.mean * (first * random.normal() + second * random.normal());
  return mean;
}

Content::Values Content::inputOf(size_t rank, uint64_t call, const Values& mean,
                                 const Facts& facts) const {
  Random random(seed_ + (call * 64 + rank + 1) * 0x9e3779b97f4a7c15u);
  Values input = mean;
  bool isMissing = false;
  for (size_t i = 0; i < input.size(); ++i) {
    if (i % kRow == 0) isMissing = random.withChance(nature_.missing);
    const bool isOthers = nature_.isOwned && i / kRun % facts.nRanks != rank;
    input[i] += nature_.kept * average_[i] + nature_.noise * random.normal();
    if (nature_.isSquared) input[i] *= input[i];
    if (nature_.isWhole)
      input[i] = std::floor(static_cast<float>(random.uniform(nature_.mean, 1)) * kMostCounted);
    if (isMissing || isOthers) input[i] = 0;
    if (facts.isBfloat16) input[i] = toBfloat16(input[i]);
  }
  return input;
}

std::vector<Content::Values> Content::inputsOf(uint64_t call, const Facts& facts) const {
  if (Random(seed_ ^ (call + 1) * 0xd1342543de82ef95u).withChance(nature_.unused))
    return std::vector<Values>(facts.nRanks, Values(average_.size()));
  const Values mean = meanOf(call);
  std::vector<Values> inputs;
  for (size_t rank = 0; rank < facts.nRanks; ++rank)
    inputs.push_back(inputOf(rank, call, mean, facts));
  return inputs;
}

// Only what is kept of an average has to be known of the calls before.
void Content::follow(const Facts& facts) {
  if (average_.empty()) {
    average_.resize(valuesOf(nature_, facts.nRanks));
    Random random(~seed_);
    if (nature_.kept > 0)
      for (float& value : average_)
        value = nature_.positive > 0 ? 1 + random.normal() / 4 : random.normal();
  }
  if (nature_.kept == 0) return;
  for (; nFollowed_ < nCalls_; ++nFollowed_) {
    Values sum(average_.size());
    for (const Values& input : inputsOf(nFollowed_, facts))
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
    for (size_t i = 0; i < sum.size(); ++i) average_[i] = sum[i] / static_cast<float>(facts.nRanks);
  }
}

std::vector<SampledCall> Content::sample(const Facts& facts) {
  follow(facts);
  std::vector<SampledCall> calls;
  Values result(average_.size());
  for (Values& input : inputsOf(nCalls_, facts)) {
    for (size_t i = 0; i < result.size(); ++i) result[i] += input[i];
    calls.push_back({std::move(input), {}});
  }
  for (float& value : result) {
    if (facts.averages) value /= static_cast<float>(facts.nRanks);
    if (facts.isBfloat16) value = toBfloat16(value);
  }
  for (SampledCall& call : calls) call.output = result;
  return calls;
}

}  // namespace cinch::identity
