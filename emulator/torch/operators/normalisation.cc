// What SyncBatchNorm and RMSNorm call on a GPU. Formulas are those of the papers (Ioffe, Szegedy
// 2015; Zhang, Sennrich 2019) and of PyTorch's documentation of its operators; statistics of half
// types are fp32, as on a GPU.
#include <ATen/ATen.h>

#include "composed.h"

namespace cinch::emulator_torch {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

at::ScalarType statisticsType(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

Tensor widened(const Tensor& tensor) {
  return tensor.to(statisticsType(tensor.scalar_type()));
}

// All dimensions but the channels', which are dimension 1.
std::vector<int64_t> withoutChannels(const Tensor& input) {
  std::vector<int64_t> dimensions = {0};
  for (int64_t i = 2; i < input.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

// A value for each channel, in a shape that broadcasts over `input`.
Tensor overChannels(const Tensor& values, const Tensor& input) {
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = input.size(1);
  return values.to(statisticsType(input.scalar_type())).view(shape);
}

std::tuple<Tensor, Tensor> batchNormStats(const Tensor& input, double epsilon) {
  const Tensor wide = widened(input);
  const auto dimensions = withoutChannels(input);
  const Tensor mean = wide.mean(dimensions);
  const Tensor variance = (wide - overChannels(mean, input)).square().mean(dimensions);
  return {mean, (variance + epsilon).rsqrt()};
}

Tensor batchNormElements(const Tensor& input, const OptionalTensor& weight,
                         const OptionalTensor& bias, const Tensor& mean, const Tensor& inverse,
                         double) {
  Tensor output = (widened(input) - overChannels(mean, input)) * overChannels(inverse, input);
  if (weight && weight->defined()) output = output * overChannels(*weight, input);
  if (bias && bias->defined()) output = output + overChannels(*bias, input);
  return output.to(input.scalar_type(), false, false, input.suggest_memory_format());
}

Tensor& batchNormElementsOut(const Tensor& input, const OptionalTensor& weight,
                             const OptionalTensor& bias, const Tensor& mean, const Tensor& inverse,
                             double epsilon, Tensor& out) {
  out.resize_(input.sizes());
  return out.copy_(batchNormElements(input, weight, bias, mean, inverse, epsilon));
}

// The statistics of all ranks' values from those of each: row r of `mean` and `inverse` belongs to
// the counts[r] values of rank r. Running statistics take the variance without bias.
std::tuple<Tensor, Tensor> gatherStatsWithCounts(const Tensor& input, const Tensor& mean,
                                                 const Tensor& inverse,
                                                 const OptionalTensor& runningMean,
                                                 const OptionalTensor& runningVariance,
                                                 double momentum, double epsilon,
                                                 const Tensor& counts) {
  const auto type = statisticsType(input.scalar_type());
  const Tensor weights = counts.to(type).view({-1, 1});
  const Tensor total = weights.sum();
  const Tensor means = mean.to(type), variances = inverse.to(type).pow(-2) - epsilon;
  const Tensor all = (means * weights).sum(0) / total;
  const Tensor squares = ((variances + (means - all).square()) * weights).sum(0);
  if (runningMean && runningMean->defined())
    runningMean->mul_(1 - momentum).add_((all * momentum).to(runningMean->scalar_type()));
  if (runningVariance && runningVariance->defined())
    runningVariance->mul_(1 - momentum)
        .add_((squares / (total - 1) * momentum).to(runningVariance->scalar_type()));
  return {all, (squares / total + epsilon).rsqrt()};
}

std::tuple<Tensor, Tensor> gatherStats(const Tensor& input, const Tensor& mean,
                                       const Tensor& inverse, const OptionalTensor& runningMean,
                                       const OptionalTensor& runningVariance, double momentum,
                                       double epsilon, int64_t count) {
  const Tensor counts = at::full({mean.size(0)}, count, mean.options());
  return gatherStatsWithCounts(input, mean, inverse, runningMean, runningVariance, momentum,
                               epsilon, counts);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> batchNormBackwardReduce(
    const Tensor& gradient, const Tensor& input, const Tensor& mean, const Tensor& inverse,
    const OptionalTensor& weight, bool wantsInput, bool wantsWeight, bool wantsBias) {
  const Tensor wide = widened(gradient);
  const auto dimensions = withoutChannels(input);
  const Tensor sum = wide.sum(dimensions);
  const Tensor sumCentred = (wide * (widened(input) - overChannels(mean, input))).sum(dimensions);
  const auto type = weight && weight->defined() ? weight->scalar_type() : sum.scalar_type();
  return {wantsInput ? sum : Tensor(), wantsInput ? sumCentred : Tensor(),
          wantsWeight ? (sumCentred * inverse).to(type) : Tensor(),
          wantsBias ? sum.to(type) : Tensor()};
}

Tensor batchNormBackwardElements(const Tensor& gradient, const Tensor& input, const Tensor& mean,
                                 const Tensor& inverse, const OptionalTensor& weight,
                                 const Tensor& sum, const Tensor& sumCentred,
                                 const Tensor& counts) {
  const Tensor total = counts.to(statisticsType(input.scalar_type())).sum();
  const Tensor scale = overChannels(inverse, input);
  const Tensor centred = widened(input) - overChannels(mean, input);
  Tensor result = widened(gradient) - overChannels(sum / total, input) -
                  centred * scale.square() * overChannels(sumCentred / total, input);
  result = result * scale;
  if (weight && weight->defined()) result = result * overChannels(*weight, input);
  return result.to(input.scalar_type(), false, false, input.suggest_memory_format());
}

std::tuple<Tensor, Tensor> rmsNormBackward(const Tensor& gradient, const Tensor& input,
                                           at::IntArrayRef normalizedShape, const Tensor& inverse,
                                           const OptionalTensor& weight, std::array<bool, 2> mask) {
  const bool hasWeight = weight && weight->defined();
  const int64_t nOuter = input.dim() - static_cast<int64_t>(normalizedShape.size());
  std::vector<int64_t> inner, outer;
  for (int64_t i = 0; i < input.dim(); ++i) (i < nOuter ? outer : inner).push_back(i);
  const Tensor wide = widened(gradient), normalised = widened(input) * inverse;
  Tensor inputGradient, weightGradient;
  if (mask[0]) {
    const Tensor scaled = hasWeight ? wide * widened(*weight) : wide;
    const Tensor projection = (scaled * normalised).mean(inner, /*keepdim=*/true);
    inputGradient = ((scaled - normalised * projection) * inverse).to(input.scalar_type());
  }
  if (mask[1] && hasWeight) {
    const Tensor product = wide * normalised;
    weightGradient = (outer.empty() ? product : product.sum(outer)).to(weight->scalar_type());
  }
  return {inputGradient, weightGradient};
}

}  // namespace

void addNormalisation(torch::Library& library) {
  library.impl("batch_norm_stats", &batchNormStats);
  library.impl("batch_norm_elemt", &batchNormElements);
  library.impl("batch_norm_elemt.out", &batchNormElementsOut);
  library.impl("batch_norm_gather_stats", &gatherStats);
  library.impl("batch_norm_gather_stats_with_counts", &gatherStatsWithCounts);
  library.impl("batch_norm_backward_reduce", &batchNormBackwardReduce);
  library.impl("batch_norm_backward_elemt", &batchNormBackwardElements);
  library.impl("_fused_rms_norm_backward", &rmsNormBackward);
}

}  // namespace cinch::emulator_torch
