#include "interpose/comm/bucket_layers.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/param.h"
#include "common/text_file.h"
#include "interpose/policy/layers/known_layers.h"
#include "interpose/policy/layers/layer_claims.h"
#include "interpose/policy/layers/layer_file.h"
#include "interpose/policy/policy.h"

namespace cinch {
namespace {

// How many calls are kept where slots have no place. More buckets than this are not told apart.
constexpr size_t kMaxCalls = 256;

bool isKnown(const BucketLayout& layers) {
  return !layers.empty();
}

Result<std::vector<BucketLayout>> readLayers(const std::string& path) {
  const auto text = readTextFile(path);
  CINCH_TRY(text);
  return parseLayerFile(text.value());
}

std::vector<BucketLayout> layersHeard(const DdpListener& listener, std::span<const uint64_t> counts,
                                      bool areOfOneType) {
  auto layers = listener.layoutsOf(counts);
  if (!areOfOneType || std::ranges::any_of(layers, isKnown)) return layers;
  return listener.layoutsWithoutOrder(counts);
}

}  // namespace

StatedLayers readStatedLayers(const std::string& path) {
  if (path.empty()) return {};
  auto layers = readLayers(path);
  if (layers.ok()) return {true, std::move(layers.value())};
  CINCH_WARN("POLICY", "CINCH_LAYERS: %s: %s; buckets are cut into segments of one length",
             path.c_str(), layers.error().message.c_str());
  return {true, {}};
}

const StatedLayers& processStatedLayers() {
  static const StatedLayers& stated =
      *new StatedLayers(readStatedLayers(processParams().params.layers));
  return stated;
}

BucketLayers::BucketLayers(std::string commName, const CommResources& resources, int nRanks,
                           const StatedLayers& stated)
    : commName_(std::move(commName)),
      stated_(stated),
      ear_(*resources.device, resources.cudaDevice, nRanks) {}

void BucketLayers::hear(const Signature& call, const void* received_dev, void* stream) {
  if (!stated_.areStated) ear_.hear(call, received_dev, stream);
}

void BucketLayers::miss(const Signature& call) {
  ear_.miss(call);
}

void BucketLayers::follow(const Signature& call) {
  const bool isGradient = call.kind == CallKind::allReduce && isCompressibleType(call.dataType);
  const bool isOrder = call.kind == CallKind::broadcast && call.dataType == ncclInt32;
  if (!isGradient && !isOrder) return;
  const std::lock_guard lock(callsMutex_);
  if (isOrder)
    lastCalls_.clear();
  else if (lastCalls_.size() < kMaxCalls)
    lastCalls_.push_back({call.dataType, call.count, {}});
}

BucketLayers::Calls BucketLayers::lastCalls() {
  const std::lock_guard lock(callsMutex_);
  return lastCalls_;
}

BucketLayout BucketLayers::of(const std::vector<GradientCall>& period, uint64_t count,
                              std::optional<uint32_t> slot) {
  const std::lock_guard lock(answerMutex_);
  BucketLayout layers = find(period, count, slot);
  return countOf(layers) == count ? layers : BucketLayout();
}

// Without a period it is a bucket that has the count of one.
DdpClaim BucketLayers::claimOf(const Calls& period, uint64_t count, uint32_t slot) {
  if (stated_.areStated) return DdpClaim::nothing;
  const std::lock_guard lock(answerMutex_);
  const Layouts& layers = answerTo(period.empty() ? lastCalls() : period).layers;
  const bool isOwn =
      period.empty()
          ? std::ranges::any_of(layers, [&](const auto& each) { return countOf(each) == count; })
          : countOf(layersOfSlot(period, layers, slot)) == count;
  if (isOwn) return DdpClaim::isOwn;
  if (std::ranges::any_of(layers, isKnown)) return DdpClaim::isBeside;
  return ear_.heard().listener.hasOrder() ? DdpClaim::unclear : DdpClaim::nothing;
}

BucketLayout BucketLayers::find(const Calls& period, uint64_t count, std::optional<uint32_t> slot) {
  if (slot) return layersOfSlot(period, answerTo(period).layers, *slot);
  if (stated_.areStated) return statedOf(count);
  const Calls calls = period.empty() ? lastCalls() : period;
  return layersOfCount(calls, answerTo(calls).layers, count);
}

// All slots of a communicator ask for the same.
const BucketLayers::Answer& BucketLayers::answerTo(const Calls& calls) {
  const auto [listener, nChanges] = ear_.heard();
  if (answer_.calls != calls || answer_.nChanges != nChanges)
    answer_ = {calls, nChanges, layersOf(calls, listener)};
  logOnce(answer_.layers);
  return answer_;
}

BucketLayers::Layouts BucketLayers::layersOf(const Calls& calls,
                                             const DdpListener& listener) const {
  const bool areOfOneType = std::ranges::all_of(
      calls, [&](const GradientCall& call) { return call.type == calls.front().type; });
  return layersOfPeriod(calls, [&](std::span<const uint64_t> counts) {
    return stated_.areStated ? placeBuckets(stated_.buckets, counts)
                             : layersHeard(listener, counts, areOfOneType);
  });
}

// Empty where buckets of this count differ.
BucketLayout BucketLayers::statedOf(uint64_t count) {
  const BucketLayout* found = nullptr;
  for (const BucketLayout& bucket : stated_.buckets) {
    if (countOf(bucket) != count) continue;
    if (found != nullptr && *found != bucket) return {};
    found = &bucket;
  }
  if (found == nullptr) return {};
  logOnce(stated_.buckets);
  return *found;
}

void BucketLayers::logOnce(const Layouts& layers) {
  const auto nKnown = std::ranges::count_if(layers, isKnown);
  if (nKnown == 0 || std::exchange(isLogged_, true)) return;
  CINCH_INFO("POLICY", "%s: the layers of %zu of %zu buckets are known from %s", commName_.c_str(),
             static_cast<size_t>(nKnown), layers.size(),
             stated_.areStated ? "CINCH_LAYERS" : "what PyTorch DDP has sent");
}

}  // namespace cinch
