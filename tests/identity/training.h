// Small models that are really trained, each rank on batches of its own: where weights that are
// averaged come from, and gradients with the noise of batches.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/identity/random.h"

namespace cinch::identity {

using Values = std::vector<float>;

enum class ModelKind { linear, logistic, perceptron };
enum class Optimizer { sgd, momentum, adam };

struct TrainingSettings {
  ModelKind kind = ModelKind::linear;
  Optimizer optimizer = Optimizer::sgd;
  float learningRate = 0.01f;
  float weightDecay = 0;
  size_t batch = 8;
  float labelNoise = 0.1f;
  // Of the inputs: the i-th has a scale of i to the minus this.
  float spectrum = 0;
  size_t nInputs = 20, nOther = 20, nOutputs = 16;  // nOther: hidden units, or further inputs
  bool isBfloat16 = false;                          // weights and gradients are rounded
};

// A tensor of parameters.
struct Tensor {
  Values values;
  bool isMatrix = false;  // the rest are biases and gains, which are few values
};
using Parameters = std::vector<Tensor>;

// The data that a model learns: what another model of its kind says, and noise. Every rank draws
// its own batches.
class Teacher {
 public:
  Teacher(const TrainingSettings& settings, Random& random);

  const TrainingSettings settings;

  Parameters freshModel(Random& random) const;
  // The mean over a batch that is drawn, by tensor.
  // Of a model, over so many samples.
  double lossOf(const Parameters& model, Random& random, size_t nSamples) const;
  void gradientsOf(const Parameters& model, Random& random, std::vector<Values>& gradients) const;

 private:
  void draw(Random& random, Values& inputs, Values& target) const;

  Parameters model_;
  Values scales_;  // of the inputs
};

// What one rank's optimizer keeps.
class Trainer {
 public:
  explicit Trainer(const TrainingSettings& settings) : settings_(settings) {}

  void apply(const std::vector<Values>& gradients, Parameters& model);

 private:
  const TrainingSettings settings_;
  std::vector<Values> first_, second_;
  int nSteps_ = 0;
};

}  // namespace cinch::identity
