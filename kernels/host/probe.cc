#include "kernels/host/probe.h"

#include <algorithm>

#include "kernels/core/input_factor.h"
#include "kernels/core/probe.h"
#include "kernels/host/tile_elements.h"

namespace cinch::host {
namespace {

using core::kProbeLanes, core::ProbedTiles, core::ProfileChange;

float sumOfSquares(const TileValues& values) {
  float lanes[kProbeLanes] = {};
  for (uint32_t first = 0; first < kTileElems; first += kProbeLanes)
    for (uint32_t lane = 0; lane < kProbeLanes; ++lane)
      lanes[lane] += values.at[first + lane] * values.at[first + lane];
  for (uint32_t distance = kProbeLanes / 2; distance > 0; distance /= 2)
    for (uint32_t lane = 0; lane < distance; ++lane) lanes[lane] += lanes[lane + distance];
  return lanes[0];
}

float inputPower(const ProbeLaunch& launch, uint64_t first, uint32_t nValues) {
  const ElementType type = launch.call.type;
  TileValues values;
  loadElements(type, static_cast<const uint8_t*>(launch.input) + first * elementBytes(type),
               nValues, values.at);
  multiply(values, core::valueOf(launch.inputFactor, type));
  return sumOfSquares(values);
}

template <ResidualType type>
float residualPower(const void* residual, uint64_t first, uint32_t nValues) {
  TileValues values = {};
  for (uint32_t i = 0; i < nValues; ++i) values.at[i] = core::residualAt<type>(residual, first + i);
  return sumOfSquares(values);
}

float residualPower(const ProbeLaunch& launch, uint64_t first, uint32_t nValues) {
  switch (launch.residualType) {
    case ResidualType::fp32:
      return residualPower<ResidualType::fp32>(launch.residual, first, nValues);
    case ResidualType::bf16:
      return residualPower<ResidualType::bf16>(launch.residual, first, nValues);
    default:
      return residualPower<ResidualType::int8>(launch.residual, first, nValues);
  }
}

ProfileChange changeOf(const float* levels, const float* before, uint32_t nProbes) {
  float shifts[kMaxProbes];
  ProfileChange change;
  for (uint32_t i = 0; i < nProbes; ++i) {
    shifts[i] = core::shiftOf(levels[i], before[i]);
    change.nShifts += isFinite(shifts[i]);
    change.nFlipped += core::isFlipped(levels[i], before[i]);
  }
  for (uint32_t i = 0; i < nProbes; ++i)
    if (isFinite(shifts[i]) && core::rankOf(shifts, nProbes, i) == core::medianRank(change.nShifts))
      change.median = shifts[i];
  for (uint32_t i = 0; i < nProbes; ++i) change.nDeviating += core::isFar(shifts[i], change.median);
  return change;
}

}  // namespace

void probeInput(const ProbeLaunch& launch) {
  const ProbedTiles tiles(launch.call.layout.count);
  const uint32_t nProbes = tiles.size();
  ProbePower powers[kMaxProbes];
  float levels[kMaxProbes];
  for (uint32_t i = 0; i < nProbes; ++i) {
    const uint64_t first = tiles.tile(i) * kTileElems;
    powers[i] = {inputPower(launch, first, tiles.nValues(i)),
                 residualPower(launch, first, tiles.nValues(i))};
    levels[i] = core::levelOf(powers[i].input);
  }
  ProbeState& probe = *launch.probe;
  const ProfileChange change = changeOf(levels, probe.levels, nProbes);
  if (core::conclude(change, core::totalOf(powers, nProbes), nProbes, *launch.call.state, probe))
    std::copy(levels, levels + nProbes, probe.levels);
}

}  // namespace cinch::host
