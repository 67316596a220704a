#include "interpose/policy/precision/outliers.h"

namespace cinch {
namespace {

// Of a tile's power, what the squared ranges of its blocks sum up to: .21 of Gaussian values, 1 of
// a single one.
constexpr double kOneValuesRange = 0.5;
// How many times the mean tile's power: a value of some 250 standard deviations of the others.
constexpr double kStandsOut = 64;

double powerOf(const TileTally& tile) {
  return static_cast<double>(tile.power);
}

bool isOneValues(const TileTally& tile) {
  return static_cast<double>(tile.squaredRanges) > kOneValuesRange * powerOf(tile);
}

}  // namespace

std::vector<uint64_t> outlierTiles(std::span<const TileTally> tiles) {
  double power = 0;
  uint64_t nOthers = 0;
  for (const TileTally& tile : tiles)
    if (!isOneValues(tile)) power += powerOf(tile), ++nOthers;
  std::vector<uint64_t> outliers;
  for (uint64_t i = 0; i < tiles.size(); ++i) {
    const double mean = power / static_cast<double>(nOthers);
    if (isOneValues(tiles[i]) && powerOf(tiles[i]) > kStandsOut * mean) outliers.push_back(i);
  }
  if (outliers.size() > kMaxOutlierTiles) outliers.clear();
  return outliers;
}

}  // namespace cinch
