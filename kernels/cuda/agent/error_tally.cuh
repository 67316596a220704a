// The statistics of a measured launch: sums of squares in double, one per thread, brought together
// once at the end.
#pragma once

#include "kernels/cuda/agent/instructions.cuh"
#include "kernels/cuda/agent/warp_tile.cuh"
#include "kernels/device_table.h"

namespace cinch::cuda {

struct WarpSums {
  double at[kThreadsPerCta / kWarpThreads];
};

class ErrorTally {
 public:
  // Where `decoded` is not finite there is nothing to measure.
  __device__ void add(float coded, float decoded) {
    if (!isFinite(decoded)) return;
    const double error = static_cast<double>(coded) - static_cast<double>(decoded);
    error_ += error * error;
    power_ += static_cast<double>(coded) * static_cast<double>(coded);
  }

  // Adds the sums of all threads of the CTA to those of `stage`, 0 or 1. Every thread must call it.
  __device__ void addTo(SlotState* state, int stage) const {
    addSum(error_, &state->error[stage]);
    addSum(power_, &state->power[stage]);
  }

 private:
  __device__ static double sumOfWarp(double value) {
    for (uint32_t distance = kWarpThreads / 2; distance > 0; distance /= 2)
      value += __shfl_xor_sync(kAllLanes, value, distance);
    return value;
  }

  __device__ static void addSum(double value, double* total) {
    auto& ofWarp = sharedMemory<WarpSums>().at;
    const double warpSum = sumOfWarp(value);
    if (threadIdx.x % kWarpThreads == 0) ofWarp[threadIdx.x / kWarpThreads] = warpSum;
    __syncthreads();
    if (threadIdx.x == 0) {
      double sum = 0;
      for (double each : ofWarp) sum += each;
      atomicAdd(total, sum);
    }
    __syncthreads();  // the array is used again
  }

  double error_ = 0;
  double power_ = 0;
};

}  // namespace cinch::cuda
