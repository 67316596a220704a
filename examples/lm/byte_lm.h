// A byte-level language model: the embeddings of the last bytes, two hidden ReLU layers, and a
// softmax over the next byte. All parameters lie in one flat vector, and so do their gradients, as
// in a data-parallel job's bucket. One thread; the host's BLAS does the products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "examples/lm/text_corpus.h"

namespace lm {

struct Shape {
  size_t context = 16;  // bytes that the model sees
  size_t embedding = 64;
  size_t hidden = 1536;  // width of both hidden layers

  static constexpr size_t kBytes = 256;  // values of a byte
};

class ByteLm {
 public:
  // Starts from random parameters that depend on the seed alone.
  ByteLm(const Shape& shape, uint64_t seed);

  const Shape& shape() const { return shape_; }
  std::span<float> parameters() { return parameters_; }
  std::span<const float> parameters() const { return parameters_; }

  // Mean cross-entropy of the batch, in nats per byte. `gradient` receives its derivative by every
  // parameter; what was there is overwritten.
  double lossAndGradient(const Batch& batch, std::span<float> gradient);
  // Sum of the cross-entropy over the batch.
  double totalLoss(const Batch& batch);

 private:
  // y = x W + b, with W stored as `in` rows of `out` values, then b.
  struct Dense {
    size_t in, out, offset;
    size_t weights() const { return in * out; }
    size_t end() const { return offset + weights() + out; }
  };

  static constexpr size_t kLayers = 3;

  void initialise(uint64_t seed);
  void forward(const Batch& batch);
  void applyDense(const Dense& layer, const std::vector<float>& x, size_t rows,
                  std::vector<float>& y) const;
  // Turns the logits into their gradient; returns the summed loss.
  double softmaxLoss(const Batch& batch, std::vector<float>& logits) const;
  void backwardDense(const Dense& layer, const std::vector<float>& x, const std::vector<float>& dy,
                     size_t rows, std::span<float> gradient) const;
  void inputGradient(const Dense& layer, const std::vector<float>& dy, size_t rows,
                     std::vector<float>& dx) const;
  void backwardEmbedding(const Batch& batch, const std::vector<float>& dx,
                         std::span<float> gradient) const;

  Shape shape_;
  Dense layers_[kLayers];
  std::vector<float> parameters_;
  std::vector<float> values_[kLayers + 1];  // input of layer i; the last one holds the logits
  std::vector<float> slopes_[kLayers + 1];  // the loss's derivative by those
};

}  // namespace lm
