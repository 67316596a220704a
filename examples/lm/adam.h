// Adam, and the learning rate over a run.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lm {

// Linear warm-up over the first 5 % of `steps`, then half a cosine down to zero. `step` counts from
// 0.
float learningRate(int step, int steps, float peak);

// One square root and two divisions per value and no contraction, so equal gradients give equal
// parameters on every machine.
class Adam {
 public:
  explicit Adam(size_t count);
  void update(std::span<const float> gradient, float rate, std::span<float> parameters);

 private:
  static constexpr float kBeta1 = 0.9f;
  static constexpr float kBeta2 = 0.99f;
  static constexpr float kEpsilon = 1e-8f;

  std::vector<float> mean_;
  std::vector<float> square_;
  double power1_ = 1;  // kBeta1 and kBeta2 to the power of the number of updates
  double power2_ = 1;
};

}  // namespace lm
