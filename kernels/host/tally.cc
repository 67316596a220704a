#include "kernels/host/tally.h"

#include "kernels/core/input_factor.h"
#include "kernels/core/tally.h"
#include "kernels/host/block_summary.h"
#include "kernels/host/tile_elements.h"

namespace cinch::host {
namespace {

using core::kRowLanes;
using wire::kOctetElems;

// Of a power of two of parts, at distance n/2 .. 1.
template <size_t n>
float sumOf(float (&parts)[n]) {
  for (size_t distance = n / 2; distance > 0; distance /= 2)
    for (size_t i = 0; i < distance; ++i) parts[i] += parts[i + distance];
  return parts[0];
}

float sumOfRow(const float* a, const float* b) {
  float lanes[kRowLanes];
  for (uint32_t lane = 0; lane < kRowLanes; ++lane) {
    core::LaneSum sum;
    for (uint32_t first = lane * kOctetElems; first < kBlockElems; first += kRowLanes * kOctetElems)
      sum.addProducts(a + first, b + first);
    lanes[lane] = sum.total();
  }
  return sumOf(lanes);
}

float sumOfProducts(const TileValues& a, const TileValues& b) {
  float rows[wire::kTileBlocks];
  for (uint32_t row = 0; row < wire::kTileBlocks; ++row)
    rows[row] = sumOfRow(a.at + row * kBlockElems, b.at + row * kBlockElems);
  return sumOf(rows);
}

float squaredRanges(const TileValues& values, uint32_t nValues) {
  float rows[wire::kTileBlocks] = {};
  for (uint32_t first = 0; first < nValues; first += kBlockElems)
    rows[first / kBlockElems] = core::squaredWidth(
        summaryOf<core::ValueRange>(values.at + first, std::min(kBlockElems, nValues - first)));
  return sumOf(rows);
}

TileTally tallyOf(const TileValues& values, uint32_t nValues) {
  TileTally tally = {};
  tally.power = sumOfProducts(values, values);
  tally.squaredRanges = squaredRanges(values, nValues);
  return tally;
}

TileTally tallyOf(const TileValues& values, const TileValues& others, uint32_t nValues) {
  TileValues errors;
  for (uint32_t i = 0; i < kTileElems; ++i) errors.at[i] = values.at[i] - others.at[i];
  TileTally tally = tallyOf(values, nValues);
  tally.otherPower = sumOfProducts(others, others);
  tally.product = sumOfProducts(values, others);
  tally.error = sumOfProducts(errors, errors);
  return tally;
}

}  // namespace

void tallyTiles(const TallyLaunch& launch) {
  const float factor = core::valueOf(launch.factor, launch.type);
  for (uint64_t first = 0; first < launch.count; first += kTileElems) {
    const auto nValues =
        static_cast<uint32_t>(std::min<uint64_t>(kTileElems, launch.count - first));
    const auto load = [&](const void* elements, TileValues& to) {
      const auto* from = static_cast<const uint8_t*>(elements) + first * elementBytes(launch.type);
      loadElements(launch.type, from, nValues, to.at);
    };
    TileValues values, others;
    load(launch.values, values);
    multiply(values, factor);
    if (launch.others) load(launch.others, others);
    launch.tallies[first / kTileElems] = core::canonical(
        launch.others ? tallyOf(values, others, nValues) : tallyOf(values, nValues));
  }
}

}  // namespace cinch::host
