// Another call, whose launches go into one with those that a test is about.
#pragma once

#include <cstring>

#include "kernels/core/shard_header.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {

// All its memory, on the host or on a device. It has more shards than most, and more tiles.
struct Bystander {
  static constexpr uint64_t kCount = 21000;
  static constexpr uint32_t kShards = 7, kOwnShard = 3;

  static wire::ShardLayout layout() { return {kCount, kShards, codec::formatOf("q4")}; }

  SlotState state{1, 0, 0, 0, {}, {}};
  uint32_t fault = 0;
  alignas(16) uint8_t codes[32 << 10] = {};
  float values[kCount] = {};
};

// What follows only takes addresses of what is in `call`.
inline CallContext contextOf(Bystander* call) {
  return {Bystander::layout(), ElementType::fp32, 11, 12, &call->state, &call->fault};
}
inline void setLaunch(Bystander* call, EncodeLaunch& launch) {
  launch = {
      .call = contextOf(call), .input = call->values, .residual = nullptr, .output = call->codes};
}
// Into values, of codes that are refused.
inline void setLaunch(Bystander* call, ReduceLaunch& launch) {
  launch = {.call = contextOf(call),
            .shard = Bystander::kOwnShard,
            .peers = call->codes,
            .ownInput = call->values,
            .ownResidual = nullptr,
            .residual = nullptr,
            .factor = 1.0f,
            .output = nullptr,
            .values = call->values};
}
inline void setLaunch(Bystander* call, DecodeLaunch& launch) {
  launch = {contextOf(call), call->codes, call->values};
}

// Whether the launch has run, once and whole.
inline bool isDone(Bystander& call, const EncodeLaunch&) {
  const wire::ShardHeader header = core::makeHeader(contextOf(&call), 1);
  for (uint32_t shard = 0; shard < Bystander::kShards; ++shard)
    if (std::memcmp(call.codes + shard * Bystander::layout().strideBytes(), &header,
                    sizeof header) != 0)
      return false;
  return call.state.ordinal == 1;
}
inline bool isDone(const Bystander& call, const ReduceLaunch&) {
  return call.state.ordinal == 2 && call.fault != 0;
}
inline bool isDone(const Bystander& call, const DecodeLaunch&) {
  return call.state.ordinal == 2 && call.fault != 0;
}

}  // namespace cinch::test
