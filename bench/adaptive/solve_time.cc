// How long rank 0 takes to choose the precision of 500 segments among the codecs of
// CINCH_CODEC=auto: a line of JSON, of problems whose layers' powers spread over several decades.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "interpose/policy/precision/checkup.h"
#include "interpose/policy/precision/segments.h"

namespace {

using namespace cinch;

constexpr uint64_t kSegments = 500, kProblems = 200;
constexpr uint64_t kCount = kSegments * kSegmentTiles * wire::kTileElems;

// The tallies of a gradient whose segments have powers of their own.
std::vector<TileTally> randomTallies(std::mt19937_64& random) {
  std::normal_distribution<float> decades(0, 1.5f), shape(1, 0.2f);
  std::vector<TileTally> tallies;
  for (uint64_t segment = 0; segment < kSegments; ++segment) {
    const float power = std::pow(10.0f, decades(random));
    for (uint64_t tile = 0; tile < kSegmentTiles; ++tile) {
      const float p = power * std::abs(shape(random)), ranges = 0.21f * p * std::abs(shape(random));
      tallies.push_back({p, ranges, p, p, 0});
    }
  }
  return tallies;
}

double millisecondsOf(Adviser& adviser, const Examination& examination) {
  const auto start = std::chrono::steady_clock::now();
  adviser.advise(examination, 0);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

int main() {
  std::mt19937_64 random(1);
  std::vector<double> times;
  for (uint64_t i = 0; i < kProblems; ++i) {
    Adviser adviser({.count = kCount, .nRanks = 4, .roomBytes = ~uint64_t{0}},
                    {codec::findCodec("q4"), true, segmentsOf(kCount, {})});
    const std::vector<TileTally> tallies = randomTallies(random);
    times.push_back(millisecondsOf(adviser, {tallies, tallies, 0, 0}));
  }
  std::sort(times.begin(), times.end());
  const nlohmann::json row = {
      {"segments", kSegments}, {"median_ms", times[times.size() / 2]}, {"worst_ms", times.back()}};
  std::printf("%s\n", row.dump().c_str());
}
