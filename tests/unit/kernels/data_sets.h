// Values to code: what gradients look like, and what is hard to code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cinch::test {

// Of variance scale * scale, where there is one.
std::vector<float> gaussian(size_t count, uint32_t seed, float scale = 1.0f);
std::vector<float> laplace(size_t count, uint32_t seed, float scale = 1.0f);
// Heavy tails: Student's t with 3 degrees of freedom, times `scale`.
std::vector<float> studentT3(size_t count, uint32_t seed, float scale = 1.0f);

// Gaussian, with a standard deviation of its own for each run of 1024 values, over some three
// orders of magnitude: a bucket of many layers.
std::vector<float> layered(size_t count, uint32_t seed, float scale = 1.0f);

// Gradients of examples/train_lm (tests/data), times `scale`: from a place in the recording that
// the seed decides, and over again.
std::vector<float> recorded(size_t count, uint32_t seed, float scale = 1.0f);

struct DataSet {
  const char* name;
  std::vector<float> (*make)(size_t count, uint32_t seed, float scale);
};

inline constexpr DataSet kDataSets[] = {{"gaussian", gaussian},
                                        {"laplace", laplace},
                                        {"studentT3", studentT3},
                                        {"layered", layered},
                                        {"recorded", recorded}};

// Runs of every awkward kind: constant, zero, -0, subnormal, huge, with NaN or infinities, tiny
// steps, one outlier, random bit patterns; and ordinary ones between them. Most are 128 values
// long, some shorter or longer.
std::vector<float> awkward(size_t count, uint32_t seed);

}  // namespace cinch::test
