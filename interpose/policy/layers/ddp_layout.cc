#include "interpose/policy/layers/ddp_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "interpose/policy/layers/layer_claims.h"
#include "interpose/policy/layers/shape_search.h"

namespace cinch {

namespace {

// For one model and order: a tenth of a second. Beyond it, the model is not found.
constexpr uint64_t kMaxWork = 1 << 18;

template <class T>
void keepLast(std::deque<T>& heard, T item, size_t max) {
  heard.push_back(std::move(item));
  if (heard.size() > max) heard.pop_front();
}

bool isPermutation(std::span<const int32_t> numbers) {
  std::vector<bool> isThere(numbers.size());
  for (const int32_t number : numbers) {
    if (number < 0 || static_cast<size_t>(number) >= numbers.size() || isThere[number])
      return false;
    isThere[number] = true;
  }
  return true;
}

// Cuts the layers of a model into buckets, the first ones into the last. Null if that would cut a
// parameter.
std::optional<std::vector<BucketLayout>> cutFromEnd(BucketLayout layers,
                                                    std::span<const uint64_t> counts) {
  std::vector<BucketLayout> buckets(counts.size());
  auto layer = layers.begin();
  for (size_t i = counts.size(); i-- > 0;)
    for (uint64_t left = counts[i]; left > 0;) {
      if (layer == layers.end()) return std::nullopt;
      const uint64_t count = std::min(left, layer->count);
      if (count < layer->count && layer->dims != kUnknownDims) return std::nullopt;
      buckets[i].push_back({count, layer->dims});
      left -= count;
      layer->count -= count;
      if (layer->count == 0) ++layer;
    }
  return buckets;
}

bool fits(const BucketOrder& order, const DdpShapes& model) {
  return order.parameters.size() == model.nParameters();
}

// All in one, as they were registered.
BucketOrder orderOfRegistration(uint32_t nParameters) {
  BucketOrder order{std::vector<uint32_t>(nParameters), {nParameters}};
  std::iota(order.parameters.begin(), order.parameters.end(), 0);
  return order;
}

// Tries all buckets of a model from every call on.
void claimBuckets(LayerClaims& claims, const ShapeSearch& search) {
  if (search.nBuckets() > claims.nCalls()) return;
  std::vector<std::pair<size_t, std::vector<BucketLayout>>> found;
  uint64_t work = kMaxWork;
  for (size_t start = 0; start < claims.nCalls() && work > 0; ++start) {
    const auto counts = claims.from(start).first(search.nBuckets());
    if (auto layouts = search.find(counts, work)) found.emplace_back(start, std::move(*layouts));
  }
  if (work == 0) return;  // what has not been tried could dispute what was found
  for (auto& [start, layouts] : found) claims.make(start, std::move(layouts));
}

// Tries to cut a model into buckets from every call on.
void claimCuts(LayerClaims& claims, const BucketLayout& model) {
  for (size_t start = 0; start < claims.nCalls(); ++start)
    if (auto layouts = cutFromEnd(model, claims.from(start)))
      claims.make(start, std::move(*layouts));
}

}  // namespace

void DdpListener::allGathered(std::span<const int64_t> numbers) {
  begun_.reset();
  announced_ = 0;
  if (numbers.empty() || numbers[0] < 1 || numbers[0] > DdpShapes::kMaxParameters) return;
  const bool allEqual = std::all_of(numbers.begin(), numbers.end(),
                                    [&](int64_t number) { return number == numbers[0]; });
  if (allEqual) announced_ = static_cast<uint32_t>(numbers[0]);
}

void DdpListener::broadcast(std::span<const int64_t> numbers) {
  begun_.reset();
  const uint32_t nParameters = std::exchange(announced_, 0);
  if (auto shapes = DdpShapes::read(nParameters, numbers))
    keepLast(models_, std::move(*shapes), kMaxHeard);
}

void DdpListener::broadcast(std::span<const int32_t> numbers) {
  announced_ = 0;
  if (!endOrder(numbers)) beginOrder(numbers);
}

// True if these say how many parameters each bucket of the order that has begun holds.
bool DdpListener::endOrder(std::span<const int32_t> nPerBucket) {
  std::optional<BucketOrder> order = std::exchange(begun_, std::nullopt);
  if (!order || nPerBucket.size() != order->nPerBucket.size()) return false;
  size_t nLeft = order->parameters.size();
  for (size_t i = 0; i < nPerBucket.size(); ++i) {
    if (nPerBucket[i] < 1 || static_cast<size_t>(nPerBucket[i]) > nLeft) return false;
    nLeft -= static_cast<size_t>(nPerBucket[i]);
    order->nPerBucket[i] = static_cast<uint32_t>(nPerBucket[i]);
  }
  if (nLeft > 0) return false;
  keepLast(orders_, std::move(*order), kMaxHeard);
  return true;
}

void DdpListener::beginOrder(std::span<const int32_t> numbers) {
  const auto isAwaited = [&](const DdpShapes& model) {
    return numbers.size() == size_t{model.nParameters()} + 1;
  };
  if (std::none_of(models_.begin(), models_.end(), isAwaited)) return;
  const auto parameters = numbers.first(numbers.size() - 1);
  const int32_t nBuckets = numbers.back();
  if (nBuckets < 1 || static_cast<size_t>(nBuckets) > parameters.size()) return;
  if (!isPermutation(parameters)) return;
  begun_ = BucketOrder{{parameters.begin(), parameters.end()},
                       std::vector<uint32_t>(static_cast<size_t>(nBuckets))};
}

std::vector<BucketLayout> DdpListener::layoutsOf(std::span<const uint64_t> period) const {
  LayerClaims claims(period);
  for (const DdpShapes& model : models_)
    for (const BucketOrder& order : orders_)
      if (fits(order, model)) claimBuckets(claims, ShapeSearch(model, order));
  return claims.undisputed();
}

bool DdpListener::hasOrder(const DdpShapes& model) const {
  return std::any_of(orders_.begin(), orders_.end(),
                     [&](const BucketOrder& order) { return fits(order, model); });
}

bool DdpListener::hasOrder() const {
  return std::ranges::any_of(models_, [this](const DdpShapes& model) { return hasOrder(model); });
}

std::vector<BucketLayout> DdpListener::layoutsWithoutOrder(std::span<const uint64_t> period) const {
  LayerClaims claims(period);
  const uint64_t total = sumOf(period);
  for (const DdpShapes& model : models_) {
    if (hasOrder(model)) continue;
    uint64_t work = kMaxWork;
    const BucketOrder order = orderOfRegistration(model.nParameters());
    if (const auto layout = ShapeSearch(model, order).find({&total, 1}, work))
      claimCuts(claims, layout->front());
  }
  return claims.undisputed();
}

}  // namespace cinch
