#include "interpose/policy/precision/outliers.h"

#include <algorithm>
#include <numeric>

namespace cinch {
namespace {

// Of a tile's power, what the squared ranges of its blocks sum up to: .21 of Gaussian values, 1 of
// a single one, and .33 of three alike.
constexpr double kOneValuesRange = 0.3;
// How many times the mean tile's power: a value of some 250 standard deviations of the others.
constexpr double kStandsOut = 64;

double powerOf(const TileTally& tile) {
  return static_cast<double>(tile.power);
}

bool isOneValues(const TileTally& tile) {
  return static_cast<double>(tile.squaredRanges) > kOneValuesRange * powerOf(tile);
}

// But for those that may be outliers.
double meanPower(std::span<const TileTally> tiles) {
  std::vector<double> powers;
  for (const TileTally& tile : tiles) powers.push_back(powerOf(tile));
  std::ranges::sort(powers);
  powers.resize(powers.size() - std::min<size_t>(powers.size() / 2, kMaxOutlierTiles));
  return std::accumulate(powers.begin(), powers.end(), 0.0) / static_cast<double>(powers.size());
}

}  // namespace

std::vector<uint64_t> outlierTiles(std::span<const TileTally> tiles) {
  const double mean = meanPower(tiles);
  std::vector<uint64_t> outliers;
  for (uint64_t i = 0; i < tiles.size(); ++i)
    if (isOneValues(tiles[i]) && powerOf(tiles[i]) > kStandsOut * mean) outliers.push_back(i);
  if (outliers.size() > kMaxOutlierTiles) outliers.clear();
  return outliers;
}

}  // namespace cinch
