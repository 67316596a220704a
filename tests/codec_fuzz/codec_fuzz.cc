// libFuzzer target: bytes of a peer, after headers that are accepted and others, through decode and
// reduce. Whatever they are, nothing outside of the buffers is touched (which the sanitizers see),
// and the fastest codec of this CPU leaves what the specification leaves.
#include <cstdio>
#include <cstdlib>

#include "tests/codec_fuzz/fuzz_input.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

// What a launch left behind.
struct Outcome {
  SlotState state{};
  uint32_t fault = 0;
  std::vector<std::vector<uint8_t>> buffers;

  bool operator==(const Outcome& other) const {
    return std::memcmp(&state, &other.state, sizeof state) == 0 && fault == other.fault &&
           buffers == other.buffers;
  }
};

CallContext callOf(const FuzzInput& input, Outcome& outcome) {
  outcome.state.ordinal = kFuzzOrdinal;
  return {input.layout, input.type, kFuzzPlan, kFuzzSlot, &outcome.state, &outcome.fault};
}

Outcome decode(const host::HostCodec& codec, const FuzzInput& input) {
  Outcome outcome;
  ExactBytes encoded(input.encoded, input.codedOffset), values(input.values, input.valueOffset);
  codec.decodeShards(
      {.call = callOf(input, outcome), .input = encoded.data(), .output = values.data()});
  outcome.buffers = {encoded.content(), values.content()};
  return outcome;
}

Outcome reduce(const host::HostCodec& codec, const FuzzInput& input) {
  const bool intoCodes = input.launch == FuzzLaunch::reduceIntoCodes;
  Outcome outcome;
  ExactBytes peers(input.encoded, input.codedOffset), own(input.values, input.valueOffset);
  ExactBytes residual(input.residual, 0), ownerResidual(input.ownerResidual, 0);
  ExactBytes reduced(std::vector<uint8_t>(input.layout.strideBytes()), input.codedOffset);
  codec.reduceShard({.call = callOf(input, outcome),
                     .shard = input.shard,
                     .peers = peers.data(),
                     .ownInput = own.data(),
                     .ownResidual = input.feedback ? residual.data() : nullptr,
                     .residual = input.feedback && intoCodes ? ownerResidual.data() : nullptr,
                     .rule = input.rule,
                     .factor = 1.0f / static_cast<float>(input.layout.nShards),
                     .output = intoCodes ? reduced.data() : nullptr,
                     .values = intoCodes ? nullptr : own.data()});
  outcome.buffers = {peers.content(), own.content(), residual.content(), ownerResidual.content(),
                     reduced.content()};
  return outcome;
}

Outcome run(const host::HostCodec& codec, const FuzzInput& input) {
  return input.launch == FuzzLaunch::decode ? decode(codec, input) : reduce(codec, input);
}

}  // namespace
}  // namespace cinch::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cinch;
  const test::FuzzInput input(test::FuzzBytes({data, size}));
  const host::HostCodec& fastest = host::fastestHostCodec();
  if (test::run(fastest, input) == test::run(test::referenceCodec(), input)) return 0;
  std::fprintf(stderr, "%s differs from the specification: %s of %llu values, %u shards of %s\n",
               fastest.name, input.launch == test::FuzzLaunch::decode ? "decode" : "reduce",
               static_cast<unsigned long long>(input.layout.count), input.layout.nShards,
               input.mixed ? "two codecs" : test::nameOf(input.layout.codec).c_str());
  std::abort();
}
