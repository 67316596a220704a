// Dropout as a GPU has it: the mask comes from the CUDA generator.
#include <ATen/ATen.h>

#include "composed.h"

namespace cinch::emulator_torch {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> dropWith(const Tensor& input, double keep,
                                    const std::optional<at::Generator>& generator,
                                    at::ScalarType maskType) {
  const Tensor mask =
      at::empty(input.sizes(), input.options().dtype(maskType)).bernoulli_(keep, generator);
  // Nothing is kept with a probability of 0: 1 / keep would be infinite, and 0 times that NaN.
  const double scale = keep > 0 ? 1 / keep : 0;
  return {input * mask * scale, mask};
}

std::tuple<Tensor, Tensor> nativeDropout(const Tensor& input, double drop,
                                         std::optional<bool> train) {
  if (train && !*train)
    return {input.clone(), at::ones(input.sizes(), input.options().dtype(at::kBool))};
  return dropWith(input, 1 - drop, std::nullopt, at::kBool);
}

// `keep` is the probability of a value to stay, as this operator has it.
std::tuple<Tensor, Tensor> fusedDropout(const Tensor& input, double keep,
                                        std::optional<at::Generator> generator) {
  return dropWith(input, keep, generator, at::kByte);
}

Tensor maskedScale(const Tensor& input, const Tensor& mask, double scale) {
  return input * mask.to(input.scalar_type()) * scale;
}

}  // namespace

void addDropout(torch::Library& library) {
  library.impl("native_dropout", &nativeDropout);
  library.impl("_fused_dropout", &fusedDropout);
  library.impl("_masked_scale", &maskedScale);
}

}  // namespace cinch::emulator_torch
