#include "tests/identity/training.h"

#include <algorithm>
#include <cmath>

namespace cinch::identity {
namespace {

// In the order of Parameters.
enum : size_t { kFirst, kFirstBias, kGain, kSecond, kSecondBias, kTensors };

// PyTorch's: uniform within 1 / sqrt(inputs).
Values kaiming(size_t nOutputs, size_t nInputs, Random& random) {
  Values values(nOutputs * nInputs);
  const double bound = 1 / std::sqrt(static_cast<double>(nInputs));
  for (float& value : values) value = static_cast<float>(random.uniform(-bound, bound));
  return values;
}

// out += matrix in
void multiplyAdd(const Values& matrix, const float* in, size_t nIn, float* out, size_t nOut) {
  for (size_t o = 0; o < nOut; ++o) {
    float sum = 0;
    for (size_t i = 0; i < nIn; ++i) sum += matrix[o * nIn + i] * in[i];
    out[o] += sum;
  }
}

// matrix += factor outer(out, in)
void addOuter(Values& matrix, const float* out, size_t nOut, const float* in, size_t nIn,
              float factor) {
  for (size_t o = 0; o < nOut; ++o)
    for (size_t i = 0; i < nIn; ++i) matrix[o * nIn + i] += factor * out[o] * in[i];
}

void softmax(Values& logits) {
  const float largest = *std::ranges::max_element(logits);
  float sum = 0;
  for (float& logit : logits) sum += logit = std::exp(logit - largest);
  for (float& logit : logits) logit /= sum;
}

// What a model makes of an input, with what its gradients need.
struct Activations {
  Values hidden;     // after the nonlinearity and the gain; the further inputs of a linear model
  Values rectified;  // before the gain
  Values outputs;
};

void run(const TrainingSettings& of, const Parameters& model, const Values& inputs,
         Activations& found) {
  found.outputs = model[kSecondBias].values;
  if (of.kind != ModelKind::perceptron) {
    found.hidden.assign(inputs.begin() + static_cast<ptrdiff_t>(of.nInputs), inputs.end());
    multiplyAdd(model[kFirst].values, inputs.data(), of.nInputs, found.outputs.data(), of.nOutputs);
  } else {
    found.rectified = model[kFirstBias].values;
    multiplyAdd(model[kFirst].values, inputs.data(), of.nInputs, found.rectified.data(), of.nOther);
    found.hidden.resize(of.nOther);
    for (size_t i = 0; i < of.nOther; ++i) {
      found.rectified[i] = std::max(found.rectified[i], 0.0f);
      found.hidden[i] = found.rectified[i] * model[kGain].values[i];
    }
  }
  multiplyAdd(model[kSecond].values, found.hidden.data(), of.nOther, found.outputs.data(),
              of.nOutputs);
}

void addGradients(const TrainingSettings& of, const Parameters& model, const Values& inputs,
                  const Activations& found, const Values& error, std::vector<Values>& gradients) {
  const float factor = 1.0f / static_cast<float>(of.batch);
  addOuter(gradients[kSecond], error.data(), of.nOutputs, found.hidden.data(), of.nOther, factor);
  for (size_t o = 0; o < of.nOutputs; ++o) gradients[kSecondBias][o] += factor * error[o];
  if (of.kind != ModelKind::perceptron) {
    addOuter(gradients[kFirst], error.data(), of.nOutputs, inputs.data(), of.nInputs, factor);
    return;
  }
  Values back(of.nOther);
  for (size_t o = 0; o < of.nOutputs; ++o)
    for (size_t i = 0; i < of.nOther; ++i)
      back[i] += error[o] * model[kSecond].values[o * of.nOther + i];
  for (size_t i = 0; i < of.nOther; ++i) {
    gradients[kGain][i] += factor * back[i] * found.rectified[i];
    back[i] = found.rectified[i] > 0 ? back[i] * model[kGain].values[i] : 0;
    gradients[kFirstBias][i] += factor * back[i];
  }
  addOuter(gradients[kFirst], back.data(), of.nOther, inputs.data(), of.nInputs, factor);
}

}  // namespace

Teacher::Teacher(const TrainingSettings& settings, Random& random) : settings(settings) {
  const size_t nInputs = settings.nInputs + settings.nOther;  // the most that a model has
  for (size_t i = 0; i < nInputs; ++i)
    scales_.push_back(std::pow(static_cast<float>(i % settings.nInputs + 1), -settings.spectrum));
  model_ = freshModel(random);
  for (Tensor& tensor : model_)
    if (tensor.isMatrix)
      for (float& value : tensor.values) value *= 3;  // what is to be learned is not small
}

Parameters Teacher::freshModel(Random& random) const {
  const TrainingSettings& of = settings;
  const bool isDeep = of.kind == ModelKind::perceptron;
  Parameters model(kTensors);
  model[kFirst] = {kaiming(isDeep ? of.nOther : of.nOutputs, of.nInputs, random), true};
  model[kFirstBias].values.assign(isDeep ? of.nOther : 0, 0.0f);
  model[kGain].values.assign(isDeep ? of.nOther : 0, 1.0f);
  model[kSecond] = {kaiming(of.nOutputs, of.nOther, random), true};
  model[kSecondBias].values.assign(of.nOutputs, 0.0f);
  if (of.isBfloat16)
    for (Tensor& tensor : model)
      std::ranges::transform(tensor.values, tensor.values.begin(), toBfloat16);
  return model;
}

double Teacher::lossOf(const Parameters& model, Random& random, size_t nSamples) const {
  double loss = 0;
  Values inputs, target;
  Activations found;
  for (size_t sample = 0; sample < nSamples; ++sample) {
    draw(random, inputs, target);
    run(settings, model, inputs, found);
    if (settings.kind == ModelKind::logistic) softmax(found.outputs);
    for (size_t o = 0; o < settings.nOutputs; ++o) {
      const double error = found.outputs[o] - target[o];
      loss += settings.kind == ModelKind::logistic
                  ? -static_cast<double>(target[o]) * std::log(found.outputs[o] + 1e-12)
                  : error * error;
    }
  }
  return loss / static_cast<double>(nSamples);
}

void Teacher::draw(Random& random, Values& inputs, Values& target) const {
  const TrainingSettings& of = settings;
  inputs.resize(of.nInputs + (of.kind == ModelKind::perceptron ? 0 : of.nOther));
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = scales_[i] * random.normal();
  Activations truth;
  run(of, model_, inputs, truth);
  for (float& output : truth.outputs) output += of.labelNoise * random.normal();
  if (of.kind == ModelKind::logistic) {
    const auto label = std::ranges::max_element(truth.outputs) - truth.outputs.begin();
    truth.outputs.assign(of.nOutputs, 0.0f);
    truth.outputs[static_cast<size_t>(label)] = 1;
  }
  target = truth.outputs;
}

void Teacher::gradientsOf(const Parameters& model, Random& random,
                          std::vector<Values>& gradients) const {
  gradients.resize(model.size());
  for (size_t i = 0; i < model.size(); ++i) gradients[i].assign(model[i].values.size(), 0.0f);
  Values inputs, error;
  Activations found;
  for (size_t sample = 0; sample < settings.batch; ++sample) {
    draw(random, inputs, error);
    run(settings, model, inputs, found);
    if (settings.kind == ModelKind::logistic) softmax(found.outputs);
    for (size_t o = 0; o < settings.nOutputs; ++o) error[o] = found.outputs[o] - error[o];
    addGradients(settings, model, inputs, found, error, gradients);
  }
  if (settings.isBfloat16)
    for (Values& tensor : gradients) std::ranges::transform(tensor, tensor.begin(), toBfloat16);
}

void Trainer::apply(const std::vector<Values>& gradients, Parameters& model) {
  constexpr float kMomentum = 0.9f, kFirst = 0.9f, kSecond = 0.999f, kEpsilon = 1e-8f;
  ++nSteps_;
  const float rate = settings_.learningRate;
  const auto n = static_cast<float>(nSteps_);
  const float adamRate = rate * std::sqrt(1 - std::pow(kSecond, n)) / (1 - std::pow(kFirst, n));
  first_.resize(model.size());
  second_.resize(model.size());
  for (size_t t = 0; t < model.size(); ++t) {
    Values& values = model[t].values;
    first_[t].resize(values.size());
    second_[t].resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const float gradient = gradients[t][i] + settings_.weightDecay * values[i];
      float &first = first_[t][i], &second = second_[t][i];
      switch (settings_.optimizer) {
        case Optimizer::sgd:
          values[i] -= rate * gradient;
          break;
        case Optimizer::momentum:
          first = kMomentum * first + gradient;
          values[i] -= rate * first;
          break;
        case Optimizer::adam:
          first = kFirst * first + (1 - kFirst) * gradient;
          second = kSecond * second + (1 - kSecond) * gradient * gradient;
          values[i] -= adamRate * first / (std::sqrt(second) + kEpsilon);
          break;
      }
    }
  }
}

}  // namespace cinch::identity
