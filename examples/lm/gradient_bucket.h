// The gradients of all parameters as one device buffer, reduced in one call: a DDP bucket.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "examples/lm/communicator.h"
#include "examples/lm/options.h"

namespace lm {

// When this rank called NCCL and when the result was there, in seconds of CLOCK_MONOTONIC.
struct Interval {
  double entered = 0;
  double done = 0;
};

double monotonicSeconds();

class GradientBucket {
 public:
  GradientBucket(Communicator& communicator, size_t count, GradientType type, Reduction reduction);

  // Makes of a local gradient the values that are sent: divided by the ranks where NCCL only sums,
  // and rounded to the type of the bucket.
  void prepare(std::span<float> gradient) const;
  // Replaces prepared values by their sum or average over the ranks. The interval leaves out the
  // copies to and from the device, which a job that computes there does not have.
  Interval allReduce(std::span<float> gradient);

 private:
  void upload(std::span<const float> gradient);
  void download(std::span<float> gradient);

  Communicator& communicator_;
  GradientType type_;
  Reduction reduction_;
  DeviceMemory memory_;
  std::vector<uint16_t> halves_;  // staging, for bf16
};

}  // namespace lm
