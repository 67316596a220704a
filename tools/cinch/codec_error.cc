#include "tools/cinch/codec_error.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "kernels/host/host_codec.h"

namespace cinch {
namespace {

// Draws that are the same with every standard library.
class Draw {
 public:
  // In (0, 1].
  double uniform() { return (static_cast<double>(random_() >> 11) + 1) * 0x1p-53; }

  double gauss() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  double laplace() {
    const double magnitude = -std::log(uniform()) / std::numbers::sqrt2;
    return random_() % 2 ? magnitude : -magnitude;
  }
  double t3() {
    double squares = 0;
    for (int i = 0; i < 3; ++i) squares += std::pow(gauss(), 2);
    return gauss() / std::sqrt(squares / 3);
  }

 private:
  std::mt19937_64 random_{1};
};

template <double (Draw::*next)()>
std::vector<float> drawAll(uint64_t nValues, double scale) {
  Draw draw;
  std::vector<float> values(nValues);
  for (float& value : values) value = static_cast<float>(scale * (draw.*next)());
  return values;
}

constexpr uint64_t kSample = 1 << 18;

constexpr DataSet kDataSets[] = {{"gauss", drawAll<&Draw::gauss>},
                                 {"laplace", drawAll<&Draw::laplace>},
                                 {"t3", drawAll<&Draw::t3>}};

}  // namespace

std::span<const DataSet> errorDataSets() {
  return kDataSets;
}

std::vector<float> codecRoundTrip(wire::CodecFormat codec, std::span<const float> values) {
  const host::HostCodec& host = host::fastestHostCodec();
  SlotState state{};
  state.ordinal = 1;
  uint32_t fault = 0;
  const CallContext call{{values.size(), 1, codec}, ElementType::fp32, 1, 0, &state, &fault};
  std::vector<uint8_t> encoded(call.layout.totalBytes());
  std::vector<float> decoded(values.size());
  host.encodeShards(
      {.call = call, .input = values.data(), .residual = nullptr, .output = encoded.data()});
  host.decodeShards({.call = call, .input = encoded.data(), .output = decoded.data()});
  return decoded;
}

double codecError(wire::CodecFormat codec, std::span<const float> values) {
  const std::vector<float> decoded = codecRoundTrip(codec, values);
  double error = 0, power = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    error += std::pow(value - static_cast<double>(decoded[i]), 2);
    power += value * value;
  }
  return std::isfinite(error) ? error / power : NAN;
}

StatedError statedError(wire::CodecFormat codec, double gain, bool dithers) {
  StatedError worst;
  for (const DataSet& data : errorDataSets()) {
    const std::vector<float> values = data.draw(kSample, 1);
    const std::vector<float> decoded = codecRoundTrip(codec, values);
    float largest = 0, error = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(values[i]));
      error = std::max(error, std::abs(values[i] - decoded[i]));
    }
    worst.value = std::max(worst.value, static_cast<double>(error / largest));
    worst.nmse = std::max(worst.nmse, codecError(codec, values));
  }
  const double feedback = (1 + gain) * (dithers ? 2 : 1);
  return {kValueSlack * feedback * worst.value, kPowerSlack * feedback * feedback * worst.nmse};
}

}  // namespace cinch
