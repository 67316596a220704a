#include "interpose/policy/layers/shape_search.h"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace cinch {

namespace {

// A parameter without dimensions is hidden where one with some could be read as two. Few are, and
// the more of them are supposed, the less is the agreement of a reading with the buckets worth.
constexpr uint32_t kMaxHiddenScalars = 3;

// Numbers that are copied in the time of a step.
constexpr size_t kCopiedPerWork = 16;

using ShapePlace = ShapeSearch::Place;

std::vector<uint32_t> bucketsOf(const BucketOrder& order) {
  std::vector<uint32_t> buckets(order.parameters.size());
  size_t at = 0;
  for (uint32_t bucket = 0; bucket < order.nPerBucket.size(); ++bucket)
    for (uint32_t i = 0; i < order.nPerBucket[bucket]; ++i)
      buckets[order.parameters[at++]] = bucket;
  return buckets;
}

std::vector<ShapePlace> placesOf(const BucketOrder& order) {
  std::vector<uint32_t> missing = order.nPerBucket, placeOf(missing.size()), open;
  std::vector<ShapePlace> places;
  for (const uint32_t bucket : bucketsOf(order)) {
    const bool opens = missing[bucket] == order.nPerBucket[bucket];
    const bool closes = --missing[bucket] == 0;
    if (opens) {
      placeOf[bucket] = static_cast<uint32_t>(open.size());
      open.push_back(bucket);
    }
    places.push_back({bucket, placeOf[bucket], opens, closes});
    if (!closes) continue;
    placeOf[open.back()] = placeOf[bucket];
    open[placeOf[bucket]] = open.back();
    open.pop_back();
  }
  return places;
}

// What two readings have in common of a parameter. A count of 0: nothing.
Layer common(const Layer& a, const Layer& b) {
  if (a.count != b.count) return {0, kUnknownDims};
  const bool isAlike = (a.dims > 1) == (b.dims > 1);
  return isAlike ? a : Layer{a.count, kUnknownDims};
}

// Reads parameter by parameter, in the order of registration, and keeps every state that a reading
// of the parameters so far can lead to, each once: no more work where readings multiply.
class Readings {
 public:
  Readings(const DdpShapes& shapes, std::span<const ShapePlace> places,
           std::span<const uint64_t> bucketCounts, uint64_t& work)
      : shapes_(shapes), places_(places), bucketCounts_(bucketCounts), work_(work) {}

  // What all readings with so many parameters without dimensions have in common, by parameter.
  // Empty if there is no such reading, or no work left.
  std::vector<Layer> agreement(uint32_t nScalars) {
    const State start{0, nScalars, sumOf(bucketCounts_), {}};
    if (!canEnd(start, places_.size())) return {};
    States states = {{start, 0}};
    steps_.clear();
    for (const ShapePlace& place : places_) {
      steps_.emplace_back();
      states = advance(states, place);
      if (states.empty()) return {};
    }
    return followBack();
  }

 private:
  struct State {
    uint32_t position;              // in the numbers
    uint32_t nScalars;              // parameters without dimensions that are still to come
    uint64_t nElements;             // that are still to come
    std::vector<uint64_t> missing;  // elements, of each open bucket
    auto operator<=>(const State&) const = default;
  };
  using States = std::map<State, uint32_t>;  // numbered as they are found
  struct Step {
    uint32_t from, to;  // the numbers of states
    Layer layer;
  };

  // The states after one more parameter; none when no work is left.
  States advance(const States& states, const ShapePlace& place) {
    States next;
    for (const auto& [state, number] : states) {
      if (state.nScalars > 0) step(state, number, place, {1, 0}, next);
      for (uint8_t dims = 1; dims <= DdpShapes::kMaxDims; ++dims)
        if (const uint64_t count = shapes_.elements(state.position, dims))
          step(state, number, place, {count, dims}, next);
      if (work_ == 0) return {};
    }
    return next;
  }

  void step(const State& from, uint32_t number, const ShapePlace& place, const Layer& layer,
            States& next) {
    if (layer.count > from.nElements) return;
    State to{from.position + 2 * layer.dims,
             from.nScalars - (layer.dims == 0),
             from.nElements - layer.count,
             {}};
    if (!canEnd(to, places_.size() - steps_.size())) return;
    work_ -= std::min<uint64_t>(work_, 1 + from.missing.size() / kCopiedPerWork);
    to.missing = from.missing;
    if (!fill(to.missing, place, layer.count)) return;
    const uint32_t nNext = static_cast<uint32_t>(next.size());
    steps_.back().push_back({number, next.try_emplace(std::move(to), nNext).first->second, layer});
  }

  // False when so many more parameters cannot be what is still to come.
  bool canEnd(const State& state, size_t nParameters) const {
    return state.nScalars <= nParameters && state.nScalars <= state.nElements &&
           shapes_.canFollow(state.position, static_cast<uint32_t>(nParameters) - state.nScalars,
                             state.nElements - state.nScalars);
  }

  // Puts elements into a bucket. False when it would overflow, or be full too early or too late.
  bool fill(std::vector<uint64_t>& missing, const ShapePlace& place, uint64_t count) const {
    if (place.opens) missing.push_back(bucketCounts_[place.bucket]);
    uint64_t& left = missing[place.open];
    if (count > left || (count == left) != place.closes) return false;
    left -= count;
    if (place.closes) {
      left = missing.back();
      missing.pop_back();
    }
    return true;
  }

  // Follows the steps back from the only last state: the others led nowhere.
  std::vector<Layer> followBack() const {
    std::vector<Layer> agreed(steps_.size());
    std::unordered_set<uint32_t> leading = {0};
    for (size_t i = steps_.size(); i-- > 0;) {
      std::unordered_set<uint32_t> before;
      for (const Step& step : steps_[i]) {
        if (!leading.contains(step.to)) continue;
        agreed[i] = before.empty() ? step.layer : common(agreed[i], step.layer);
        before.insert(step.from);
      }
      leading = std::move(before);
    }
    return agreed;
  }

  const DdpShapes& shapes_;
  const std::span<const ShapePlace> places_;
  const std::span<const uint64_t> bucketCounts_;
  std::vector<std::vector<Step>> steps_;  // by parameter
  uint64_t& work_;
};
// The layers of a bucket; those from the first that is not agreed on to the last become one.
BucketLayout joinDoubtful(std::span<const Layer> layers, uint64_t bucketCount) {
  const auto isDoubtful = [](const Layer& layer) { return layer.count == 0; };
  const auto first = std::find_if(layers.begin(), layers.end(), isDoubtful);
  if (first == layers.end()) return {layers.begin(), layers.end()};
  const auto afterLast = std::find_if(layers.rbegin(), layers.rend(), isDoubtful).base();
  BucketLayout joined(layers.begin(), first);
  joined.insert(joined.end(), afterLast, layers.end());
  uint64_t nDoubtful = bucketCount;
  for (const Layer& layer : joined) nDoubtful -= layer.count;
  joined.insert(joined.begin() + (first - layers.begin()), {nDoubtful, kUnknownDims});
  return joined;
}

}  // namespace

ShapeSearch::ShapeSearch(const DdpShapes& shapes, const BucketOrder& order)
    : shapes_(shapes), order_(order), places_(placesOf(order)) {}

std::optional<std::vector<BucketLayout>> ShapeSearch::find(std::span<const uint64_t> bucketCounts,
                                                           uint64_t& work) const {
  if (bucketCounts.size() != nBuckets()) return std::nullopt;
  const uint32_t nParameters = shapes_.nParameters();
  const uint32_t fewest = nParameters - std::min(nParameters, shapes_.mostShapes());
  const uint32_t most = std::min(fewest + kMaxHiddenScalars, nParameters - shapes_.fewestShapes());
  Readings readings(shapes_, places_, bucketCounts, work);
  for (uint32_t nScalars = fewest; nScalars <= most; ++nScalars)
    if (const auto agreed = readings.agreement(nScalars); !agreed.empty())
      return arrange(agreed, bucketCounts);
  return std::nullopt;
}

std::vector<BucketLayout> ShapeSearch::arrange(std::span<const Layer> byParameter,
                                               std::span<const uint64_t> bucketCounts) const {
  std::vector<BucketLayout> buckets;
  auto parameter = order_.parameters.begin();
  for (size_t i = 0; i < nBuckets(); ++i) {
    std::vector<Layer> layers;
    for (uint32_t n = order_.nPerBucket[i]; n > 0; --n) layers.push_back(byParameter[*parameter++]);
    buckets.push_back(joinDoubtful(layers, bucketCounts[i]));
  }
  return buckets;
}

}  // namespace cinch
