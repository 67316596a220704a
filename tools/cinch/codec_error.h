// The error of codecs, measured on data of known distributions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/wire/wire_format.h"

namespace cinch {

struct DataSet {
  const char* name;
  // Values with standard deviation `scale`; in every run the same.
  std::vector<float> (*draw)(uint64_t nValues, double scale);
};

// "t3", Student's t with 3 degrees of freedom, has the scale of its Gaussian part: its own variance
// is that of its few largest values.
std::span<const DataSet> errorDataSets();

// What comes back of a round trip through the fastest codec of this CPU.
std::vector<float> codecRoundTrip(wire::CodecFormat codec, std::span<const float> values);

// Squared error over squared signal of a round trip through the fastest codec of this CPU. NaN
// where finite values came back as others.
double codecError(wire::CodecFormat codec, std::span<const float> values);

// What a check has to accept beyond the errors of a sample: rarer values, and sums that are not
// exact when they are coded.
inline constexpr double kValueSlack = 1.5;
inline constexpr double kPowerSlack = 2;

// What one round trip may do to values, slack included.
struct StatedError {
  double value = 0;  // of a value, as a part of the largest magnitude among them
  double nmse = 0;   // squared error over squared signal
};

// The worst of errorDataSets(), with what error feedback of a gain adds, and stochastic rounding
// (`dithers`).
StatedError statedError(wire::CodecFormat codec, double gain, bool dithers);

}  // namespace cinch
