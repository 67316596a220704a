// The summed squared error of codecs on a gradient, tile by tile: what a segment's error is the sum
// of, however the gradient is cut.
#pragma once

#include <string>
#include <vector>

#include "kernels/codec/registry.h"
#include "kernels/host/host_codec.h"

namespace cinch::lab {

using Values = std::vector<float>;

// Encodes and decodes `values`, without feedback, rounding to nearest.
inline Values roundTrip(const Values& values, wire::CodecFormat codec) {
  const wire::ShardLayout layout{values.size(), 1, codec};
  std::vector<uint8_t> encoded(layout.totalBytes());
  SlotState state{};
  state.ordinal = 1;
  uint32_t fault = 0;
  const CallContext call{layout, ElementType::fp32, 1, 0, &state, &fault};
  const host::HostCodec& host = host::fastestHostCodec();
  host.encodeShards(
      {.call = call, .input = values.data(), .residual = nullptr, .output = encoded.data()});
  Values decoded(values.size());
  host.decodeShards({call, encoded.data(), decoded.data()});
  return decoded;
}

inline std::vector<double> tileErrors(const Values& values, wire::CodecFormat codec) {
  const Values decoded = roundTrip(values, codec);
  std::vector<double> errors(wire::ShardLayout::tilesOf(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(values[i]) - decoded[i];
    errors[i / wire::kTileElems] += difference * difference;
  }
  return errors;
}

}  // namespace cinch::lab
