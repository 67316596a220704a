#include "interpose/policy/layers/known_layers.h"

#include <utility>

namespace cinch {
namespace {

// For each of the calls that `isCandidate` says its layers; nothing for the others.
template <class IsCandidate>
std::vector<BucketLayout> layersOf(std::span<const GradientCall> period,
                                   const LayersOfCalls& layersOfCalls,
                                   const IsCandidate& isCandidate) {
  std::vector<uint64_t> counts;
  for (const GradientCall& call : period)
    if (isCandidate(call)) counts.push_back(call.count);
  std::vector<BucketLayout> found = layersOfCalls(counts), layers(period.size());
  for (size_t i = 0, next = 0; i < period.size(); ++i)
    if (isCandidate(period[i])) layers[i] = std::move(found[next++]);
  return layers;
}

}  // namespace

std::vector<BucketLayout> layersOfPeriod(std::span<const GradientCall> period,
                                         const LayersOfCalls& layersOfCalls) {
  const auto any = [](const GradientCall&) { return true; };
  const auto isLarge = [](const GradientCall& call) { return call.slot.has_value(); };
  std::vector<BucketLayout> layers = layersOf(period, layersOfCalls, any);
  std::vector<BucketLayout> withoutSmall = layersOf(period, layersOfCalls, isLarge);
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].empty()) layers[i] = std::move(withoutSmall[i]);
  return layers;
}

BucketLayout layersOfSlot(std::span<const GradientCall> period,
                          std::span<const BucketLayout> layersOfPeriod, uint32_t slot) {
  for (size_t i = 0; i < period.size(); ++i)
    if (period[i].slot == slot) return layersOfPeriod[i];
  return {};
}

BucketLayout layersOfCount(std::span<const GradientCall> calls,
                           std::span<const BucketLayout> layers, uint64_t count) {
  size_t nKnown = layers.size();
  while (nKnown > 0 && layers[nKnown - 1].empty()) --nKnown;
  const BucketLayout* found = nullptr;
  for (size_t i = 0; i < nKnown; ++i) {
    if (calls[i].count != count) continue;
    if (layers[i].empty() || (found != nullptr && *found != layers[i])) return {};
    found = &layers[i];
  }
  return found == nullptr ? BucketLayout() : *found;
}

}  // namespace cinch
