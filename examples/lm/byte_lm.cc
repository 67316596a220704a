#include "examples/lm/byte_lm.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>

#include "examples/lm/random.h"

namespace lm {
namespace {

int asInt(size_t n) {
  return static_cast<int>(n);
}

// Zeroes the slope wherever the ReLU's output was zero.
void maskInactive(const std::vector<float>& activations, std::vector<float>& slopes) {
  for (size_t i = 0; i < slopes.size(); ++i)
    if (activations[i] <= 0) slopes[i] = 0;
}

}  // namespace

ByteLm::ByteLm(const Shape& shape, uint64_t seed) : shape_(shape) {
  const size_t widths[kLayers + 1] = {shape.context * shape.embedding, shape.hidden, shape.hidden,
                                      Shape::kBytes};
  size_t offset = Shape::kBytes * shape.embedding;
  for (size_t i = 0; i < kLayers; ++i) {
    layers_[i] = Dense{widths[i], widths[i + 1], offset};
    offset = layers_[i].end();
  }
  parameters_.assign(offset, 0);
  openblas_set_num_threads(1);
  initialise(seed);
}

void ByteLm::initialise(uint64_t seed) {
  const auto fill = [&](size_t first, size_t count, float range) {
    for (size_t i = first; i < first + count; ++i)
      parameters_[i] = range * randomSigned(randomBits(seed, 0, i));
  };
  fill(0, Shape::kBytes * shape_.embedding, 1);
  // Keeps the variance of the activations through a ReLU; the last layer starts near zero, so that
  // the first loss is that of a uniform guess.
  for (const Dense& layer : layers_)
    fill(layer.offset, layer.weights(), std::sqrt(6.0f / static_cast<float>(layer.in)));
  const Dense& last = layers_[kLayers - 1];
  for (size_t i = 0; i < last.weights(); ++i) parameters_[last.offset + i] *= 0.1f;
}

void ByteLm::applyDense(const Dense& layer, const std::vector<float>& x, size_t rows,
                        std::vector<float>& y) const {
  const float* weights = parameters_.data() + layer.offset;
  const float* bias = weights + layer.weights();
  y.resize(rows * layer.out);
  for (size_t row = 0; row < rows; ++row)
    std::copy(bias, bias + layer.out, y.begin() + static_cast<ptrdiff_t>(row * layer.out));
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, asInt(rows), asInt(layer.out),
              asInt(layer.in), 1, x.data(), asInt(layer.in), weights, asInt(layer.out), 1, y.data(),
              asInt(layer.out));
}

void ByteLm::forward(const Batch& batch) {
  const size_t width = shape_.embedding;
  values_[0].resize(batch.contexts.size() * width);
  for (size_t i = 0; i < batch.contexts.size(); ++i)
    std::copy_n(parameters_.data() + batch.contexts[i] * width, width,
                values_[0].data() + i * width);
  for (size_t i = 0; i < kLayers; ++i) {
    applyDense(layers_[i], values_[i], batch.size(), values_[i + 1]);
    if (i + 1 < kLayers)
      for (float& value : values_[i + 1]) value = std::max(value, 0.0f);
  }
}

double ByteLm::softmaxLoss(const Batch& batch, std::vector<float>& logits) const {
  const float scale = 1.0f / static_cast<float>(batch.size());
  double loss = 0;
  for (size_t row = 0; row < batch.size(); ++row) {
    float* logit = logits.data() + row * Shape::kBytes;
    const float largest = *std::max_element(logit, logit + Shape::kBytes);
    const float target = logit[batch.targets[row]];
    float sum = 0;
    for (size_t i = 0; i < Shape::kBytes; ++i) sum += logit[i] = std::exp(logit[i] - largest);
    for (size_t i = 0; i < Shape::kBytes; ++i) logit[i] *= scale / sum;
    logit[batch.targets[row]] -= scale;
    loss += std::log(static_cast<double>(sum)) + largest - target;
  }
  return loss;
}

double ByteLm::totalLoss(const Batch& batch) {
  forward(batch);
  return softmaxLoss(batch, values_[kLayers]);
}

void ByteLm::backwardDense(const Dense& layer, const std::vector<float>& x,
                           const std::vector<float>& dy, size_t rows,
                           std::span<float> gradient) const {
  float* weights = gradient.data() + layer.offset;
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, asInt(layer.in), asInt(layer.out),
              asInt(rows), 1, x.data(), asInt(layer.in), dy.data(), asInt(layer.out), 0, weights,
              asInt(layer.out));
  float* bias = weights + layer.weights();
  std::fill_n(bias, layer.out, 0.0f);
  for (size_t row = 0; row < rows; ++row)
    for (size_t i = 0; i < layer.out; ++i) bias[i] += dy[row * layer.out + i];
}

void ByteLm::inputGradient(const Dense& layer, const std::vector<float>& dy, size_t rows,
                           std::vector<float>& dx) const {
  dx.resize(rows * layer.in);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, asInt(rows), asInt(layer.in),
              asInt(layer.out), 1, dy.data(), asInt(layer.out), parameters_.data() + layer.offset,
              asInt(layer.out), 0, dx.data(), asInt(layer.in));
}

void ByteLm::backwardEmbedding(const Batch& batch, const std::vector<float>& dx,
                               std::span<float> gradient) const {
  const size_t width = shape_.embedding;
  std::fill_n(gradient.begin(), Shape::kBytes * width, 0.0f);
  for (size_t i = 0; i < batch.contexts.size(); ++i) {
    float* row = gradient.data() + batch.contexts[i] * width;
    for (size_t k = 0; k < width; ++k) row[k] += dx[i * width + k];
  }
}

double ByteLm::lossAndGradient(const Batch& batch, std::span<float> gradient) {
  const size_t rows = batch.size();
  forward(batch);
  slopes_[kLayers] = values_[kLayers];
  const double loss = softmaxLoss(batch, slopes_[kLayers]);
  for (size_t i = kLayers; i-- > 0;) {
    backwardDense(layers_[i], values_[i], slopes_[i + 1], rows, gradient);
    inputGradient(layers_[i], slopes_[i + 1], rows, slopes_[i]);
    if (i > 0) maskInactive(values_[i], slopes_[i]);
  }
  backwardEmbedding(batch, slopes_[0], gradient);
  return loss / static_cast<double>(rows);
}

}  // namespace lm
