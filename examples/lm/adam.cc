#include "examples/lm/adam.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lm {

float learningRate(int step, int steps, float peak) {
  const int warmup = std::max(1, steps / 20);
  if (step < warmup) return peak * static_cast<float>(step + 1) / static_cast<float>(warmup);
  const double progress = static_cast<double>(step - warmup) / std::max(1, steps - warmup);
  return peak * static_cast<float>(0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

Adam::Adam(size_t count) : mean_(count, 0.0f), square_(count, 0.0f) {}

void Adam::update(std::span<const float> gradient, float rate, std::span<float> parameters) {
  power1_ *= kBeta1;
  power2_ *= kBeta2;
  const auto step = static_cast<float>(rate / (1 - power1_));
  const auto correction = static_cast<float>(1 / (1 - power2_));
  // Plain pointers: the compiler then knows that nothing overlaps and vectorises the loop.
  const float* __restrict g = gradient.data();
  float* __restrict m = mean_.data();
  float* __restrict v = square_.data();
  float* __restrict p = parameters.data();
  for (size_t i = 0; i < parameters.size(); ++i) {
    m[i] = kBeta1 * m[i] + (1 - kBeta1) * g[i];
    v[i] = kBeta2 * v[i] + (1 - kBeta2) * (g[i] * g[i]);
    p[i] -= step * m[i] / (std::sqrt(v[i] * correction) + kEpsilon);
  }
}

}  // namespace lm
