// Sums of squares for the statistics of a measured call. Kept in lanes, so that the order of
// additions, and with it the result, is the same however wide a machine's vectors are.
#pragma once

#include "kernels/device_table.h"
#include "kernels/wire/wire_format.h"

namespace cinch::core {

class ErrorSums {
 public:
  // Adds the first `nValues` of a block: what was coded, and what it decodes to.
  void addBlock(const float* coded, const float* decoded, uint32_t nValues) {
    for (uint32_t first = 0; first < nValues; first += kLanes) {
      const uint32_t lanes = nValues - first < kLanes ? nValues - first : kLanes;
      for (uint32_t lane = 0; lane < lanes; ++lane)
        add(lane, coded[first + lane], decoded[first + lane]);
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

  void add(uint32_t lane, float coded, float decoded) {
    const double error = static_cast<double>(coded) - static_cast<double>(decoded);
    error_[lane] += error * error;
    power_[lane] += static_cast<double>(coded) * static_cast<double>(coded);
  }

  double error_[kLanes] = {};
  double power_[kLanes] = {};
};

}  // namespace cinch::core
