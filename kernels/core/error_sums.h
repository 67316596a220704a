// Sums of squares for the statistics of a measured call. Kept in lanes, so that the order of
// additions, and with it the result, is the same however wide a machine's vectors are.
#pragma once

#include "kernels/element/element_traits.h"

namespace cinch::core {

class ErrorSums {
 public:
  // Adds values of a shard, from the first of a block on: what was coded, and what it decodes to.
  // Where that is not finite there is nothing to measure.
  void add(const float* coded, const float* decoded, uint64_t nValues) {
    for (uint64_t first = 0; first < nValues; first += kLanes) {
      const uint64_t lanes = nValues - first < kLanes ? nValues - first : kLanes;
      for (uint64_t lane = 0; lane < lanes; ++lane)
        addTo(lane, coded[first + lane], decoded[first + lane]);
    }
  }

  // Adds the sums to those of `stage`, 0 or 1.
  void addTo(SlotState& state, int stage) const {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      state.error[stage] += error_[lane];
      state.power[stage] += power_[lane];
    }
  }

 private:
  static constexpr uint32_t kLanes = 8;

  void addTo(uint64_t lane, float coded, float decoded) {
    if (!isFinite(decoded)) return;
    const double error = static_cast<double>(coded) - static_cast<double>(decoded);
    error_[lane] += error * error;
    power_[lane] += static_cast<double>(coded) * static_cast<double>(coded);
  }

  double error_[kLanes] = {};
  double power_[kLanes] = {};
};

}  // namespace cinch::core
