#include "tools/cinch/bench/tolerance.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/cinch/codec_error.h"

namespace cinch::bench {
namespace {

constexpr uint64_t kSample = 1 << 16;  // values that a codec is tried on

struct Errors {
  double largest = 0;
  double square = 0;  // mean
  double power = 0;   // mean square of the values
};

Errors errorsOf(wire::CodecFormat codec, const std::vector<double>& exact) {
  const std::vector<float> values(exact.begin(), exact.end());
  const std::vector<float> decoded = codecRoundTrip(codec, values);
  Errors errors;
  for (size_t i = 0; i < values.size(); ++i) {
    const double error = std::abs(static_cast<double>(decoded[i]) - static_cast<double>(values[i]));
    errors.largest = std::max(errors.largest, error);
    errors.square += error * error;
    errors.power += exact[i] * exact[i];
  }
  const auto n = static_cast<double>(std::max<size_t>(1, values.size()));
  errors.square /= n;
  errors.power /= n;
  return errors;
}

}  // namespace

Tolerance exactTolerance(const TestValues& values) {
  const double bound = values.roundingBound();
  // The values alone decide, unless each has to be exact.
  return {bound, bound > 0 ? 1.0 : 0.0};
}

Tolerance codecTolerance(const Coding& coding, const TestValues& values, const Shape& shape,
                         ncclRedOp_t operation) {
  std::vector<double> sent(std::min(shape.sendCount(), kSample));
  values.send(0, 0, 0, sent);
  const Errors one = errorsOf(coding.codec, sent);
  std::vector<double> result(std::min(shape.receiveCount(), kSample));
  values.expect(0, 0, shape.count, 0, result);
  const Errors all = errorsOf(coding.codec, result);
  const bool gathers = shape.kind == CallKind::allGather;
  const int times = gathers ? 1 : shape.ranks;
  const double share = operation == ncclAvg && !gathers ? 1.0 / shape.ranks : 1;
  double largest = times * one.largest * share;
  double square = times * one.square * share * share;
  if (shape.kind == CallKind::allReduce) {
    largest += all.largest;
    square += all.square;
  }
  const double feedback = (1 + coding.gain) * (coding.dithers ? 2 : 1);
  const double rounding = 2 * values.resultStep();
  const double power = std::max(all.power, 1e-300);
  return {kValueSlack * feedback * largest + rounding,
          (kPowerSlack * feedback * feedback * square + rounding * rounding) / power};
}

}  // namespace cinch::bench
