#include "tests/unit/kernels/codec_differential.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/core/shard_header.h"

namespace cinch::test {
namespace {

constexpr uint32_t kPlan = 0xabcd, kSlot = 2;
constexpr uint32_t kFillByte = 0xee;

const host::HostCodec& reference() {
  return *host::findHostCodec("reference");
}

wire::ShardLayout layoutOf(const DifferentialCase& shape) {
  const wire::Codec codec = kCodecs[shape.seed % 3];
  if (shape.seed % 7 < 3)
    return wire::ShardLayout::fixed(shape.count / shape.nShards, shape.nShards, codec);
  return {shape.count, shape.nShards, codec};
}

// Everything that a seed decides.
struct Setup {
  Setup(Backend theBackend, const DifferentialCase& shape)
      : backend(theBackend),
        layout(layoutOf(shape)),
        type(kTypes[shape.seed / 3 % 3]),
        seed(shape.seed),
        shard(shape.seed % shape.nShards),
        skipShard(shape.seed % 2 ? static_cast<int32_t>(shard) : -1),
        valueOffset(shape.seed / 9 % 3 ? shape.seed % 7 * elementBytes(type) : 0),
        residualOffset(shape.seed / 9 % 3 ? shape.seed % 5 * sizeof(float) : 0),
        codedOffset(backend == Backend::host ? shape.seed % 61 : shape.seed % 3 * 16),
        feedback(shape.seed % 4 != 0),
        poisoned(shape.seed % 11 == 3),
        measures(shape.seed % 5 == 0),
        inPlace(shape.seed % 19 % 2 == 0),
        factorElement(toElements(type, {-0.37f})) {}

  Backend backend;
  wire::ShardLayout layout;
  ElementType type;
  uint32_t seed;
  uint32_t shard;
  int32_t skipShard;
  size_t valueOffset, residualOffset, codedOffset;  // bytes from a 64-byte boundary
  bool feedback, poisoned, measures, inPlace;
  std::vector<uint8_t> factorElement;

  InputFactor inputFactor() const {
    switch (seed % 13 % 3) {
      case 0:
        return {};
      case 1:
        return {.value = 2.7f};
      default:
        return {.device = factorElement.data()};
    }
  }
  std::vector<uint8_t> values(uint64_t count, uint32_t salt) const {
    return toElements(type, awkward(count, seed + salt));
  }
  GuardedBytes residual(uint64_t count, uint32_t salt) const {
    return GuardedBytes(toElements(ElementType::fp32, gaussian(count, seed + salt, 0.3f)),
                        residualOffset);
  }
  GuardedBytes coded(size_t nBytes) const {
    return GuardedBytes(std::vector<uint8_t>(nBytes, kFillByte), codedOffset);
  }
};

// What a launch left behind.
struct Outcome {
  std::vector<std::vector<uint8_t>> buffers;
  SlotState state{};
  uint32_t fault = 0;
  bool isIntact = true;

  explicit Outcome(const Setup& setup) {
    state.ordinal = 41 + setup.seed;
    if (setup.poisoned) state.poisonOrdinal = state.ordinal;
  }
  CallContext call(const Setup& setup) {
    return {setup.layout, setup.type, kPlan, kSlot, &state, &fault};
  }
  template <class... Buffers>
  void keep(const Buffers&... bytes) {
    (buffers.push_back(bytes.content()), ...);
    isIntact &= (bytes.isIntact() && ...);
  }
};

void expectSums(Backend backend, const double (&found)[2], const double (&expected)[2],
                const char* what) {
  const double tolerance = backend == Backend::host ? 0 : 1e-9;
  for (int stage = 0; stage < 2; ++stage)
    EXPECT_NEAR(found[stage], expected[stage], tolerance * std::abs(expected[stage])) << what;
}

void expectSame(Backend backend, const Outcome& found, const Outcome& expected, const char* what) {
  EXPECT_TRUE(found.isIntact) << what << " wrote outside its buffers";
  EXPECT_EQ(found.fault, expected.fault) << what;
  EXPECT_EQ(found.state.ordinal, expected.state.ordinal) << what;
  EXPECT_EQ(found.state.poisonOrdinal, expected.state.poisonOrdinal) << what;
  EXPECT_EQ(found.state.ticket, 0u) << what;
  EXPECT_EQ(found.state.nonFinite, 0u) << what;
  expectSums(backend, found.state.error, expected.state.error, what);
  expectSums(backend, found.state.power, expected.state.power, what);
  ASSERT_EQ(found.buffers.size(), expected.buffers.size());
  for (size_t i = 0; i < found.buffers.size(); ++i) {
    const auto& bytes = found.buffers[i];
    const auto differ = std::mismatch(bytes.begin(), bytes.end(), expected.buffers[i].begin());
    ASSERT_EQ(differ.first, bytes.end()) << what << ", buffer " << i << ", byte "
                                         << differ.first - bytes.begin() << " of " << bytes.size();
  }
}

Outcome encode(const host::HostCodec& codec, const Setup& setup) {
  Outcome outcome(setup);
  const GuardedBytes input(setup.values(setup.layout.count, 0), setup.valueOffset);
  GuardedBytes residual = setup.residual(setup.layout.count, 1);
  GuardedBytes output = setup.coded(setup.layout.totalBytes());
  codec.encodeShards({.call = outcome.call(setup),
                      .input = input.data(),
                      .inputFactor = setup.inputFactor(),
                      .residual = setup.feedback ? residual.floats() : nullptr,
                      .gain = 0.1f,
                      .output = output.data(),
                      .skipShard = setup.skipShard,
                      .measure = setup.measures});
  outcome.keep(input, residual, output);
  return outcome;
}

// All shards as the reference codes them, of data that `salt` decides.
std::vector<uint8_t> encodedBucket(const Setup& setup, uint32_t salt) {
  Outcome outcome(setup);
  const auto input = setup.values(setup.layout.count, salt);
  std::vector<uint8_t> all(setup.layout.totalBytes());
  reference().encodeShards({.call = outcome.call(setup),
                            .input = input.data(),
                            .residual = nullptr,
                            .gain = 0,
                            .output = all.data(),
                            .skipShard = -1,
                            .measure = false});
  return all;
}

// What every rank would send for the shard: different data of each.
std::vector<uint8_t> peerBytes(const Setup& setup) {
  const uint64_t stride = setup.layout.strideBytes();
  std::vector<uint8_t> peers(setup.layout.totalBytes());
  for (uint32_t rank = 0; rank < setup.layout.nShards; ++rank) {
    const auto all = encodedBucket(setup, 1000 * (rank + 1));
    std::memcpy(&peers[rank * stride], &all[setup.shard * stride], stride);
  }
  return peers;
}

enum class Into { codes, values };

// Among the buffers of a reduce.
constexpr size_t kReduceResidual = 3;

Outcome reduce(const host::HostCodec& codec, const Setup& setup, const std::vector<uint8_t>& bytes,
               Into into) {
  Outcome outcome(setup);
  const uint64_t count = setup.layout.shardElems(setup.shard);
  const GuardedBytes peers(bytes, setup.codedOffset);
  GuardedBytes own(setup.values(count, 0), setup.valueOffset);
  GuardedBytes ownResidual = setup.residual(count, 1), residual = setup.residual(count, 2);
  GuardedBytes output = setup.coded(setup.layout.strideBytes());
  GuardedBytes values(own.size(), setup.valueOffset);
  codec.reduceShard(
      {.call = outcome.call(setup),
       .shard = setup.shard,
       .peers = peers.data(),
       .ownInput = own.data(),
       .inputFactor = setup.inputFactor(),
       .ownResidual = setup.feedback ? ownResidual.floats() : nullptr,
       .residual = setup.feedback && into == Into::codes ? residual.floats() : nullptr,
       .gain = 0.1f,
       .factor = 1.0f / static_cast<float>(setup.layout.nShards),
       .output = into == Into::codes ? output.data() : nullptr,
       .values = into == Into::codes ? nullptr
                 : setup.inPlace     ? own.data()
                                     : values.data(),
       .measure = setup.measures});
  outcome.keep(peers, own, ownResidual, residual, output, values);
  return outcome;
}

Outcome decode(const host::HostCodec& codec, const Setup& setup,
               const std::vector<uint8_t>& bytes) {
  Outcome outcome(setup);
  const GuardedBytes input(bytes, setup.codedOffset);
  GuardedBytes output(setup.layout.count * elementBytes(setup.type), setup.valueOffset);
  codec.decodeShards({.call = outcome.call(setup), .input = input.data(), .output = output.data()});
  outcome.keep(input, output);
  return outcome;
}

// Random bytes, mostly behind headers that are accepted.
std::vector<uint8_t> hostileBytes(const Setup& setup) {
  std::mt19937 random(setup.seed);
  std::vector<uint8_t> bytes(setup.layout.totalBytes());
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  Outcome outcome(setup);
  const wire::ShardHeader header = core::makeHeader(outcome.call(setup), outcome.state.ordinal);
  const bool refuses = setup.seed % 3 == 0;
  for (uint32_t shard = 0; shard < setup.layout.nShards; ++shard)
    if (!refuses || random() % 4 != 0)
      std::memcpy(&bytes[shard * setup.layout.strideBytes()], &header, sizeof header);
  return bytes;
}

std::string describe(const Setup& setup) {
  return std::to_string(setup.layout.count) + " x " + nameOf(setup.type) + ", " +
         nameOf(setup.layout.codec) + ", " + (setup.layout.fixedShard ? "fixed " : "") + "shards " +
         std::to_string(setup.layout.nShards) + ", seed " + std::to_string(setup.seed);
}

// Runs `launch` on every codec; each must leave what the reference does, which is returned.
template <class Launch>
Outcome expectSameOfAll(std::span<const host::HostCodec> codecs, const Setup& setup,
                        const char* what, const Launch& launch) {
  const Outcome expected = launch(reference());
  for (const host::HostCodec& codec : codecs) {
    SCOPED_TRACE(codec.name);
    expectSame(setup.backend, launch(codec), expected, what);
  }
  return expected;
}

Outcome expectSameReduce(std::span<const host::HostCodec> codecs, const Setup& setup,
                         const std::vector<uint8_t>& peers, Into into) {
  return expectSameOfAll(codecs, setup, into == Into::codes ? "reduce" : "reduce into values",
                         [&](const auto& codec) { return reduce(codec, setup, peers, into); });
}

Outcome expectSameDecode(std::span<const host::HostCodec> codecs, const Setup& setup,
                         const std::vector<uint8_t>& encoded) {
  return expectSameOfAll(codecs, setup, "decode",
                         [&](const auto& codec) { return decode(codec, setup, encoded); });
}

}  // namespace

void expectLikeReference(std::span<const host::HostCodec> codecs, Backend backend,
                         const DifferentialCase& shape) {
  const Setup setup(backend, shape);
  SCOPED_TRACE(describe(setup));
  expectSameOfAll(codecs, setup, "encode",
                  [&](const host::HostCodec& codec) { return encode(codec, setup); });
  const auto peers = peerBytes(setup);
  expectSameReduce(codecs, setup, peers, Into::codes);
  expectSameReduce(codecs, setup, peers, Into::values);
  expectSameDecode(codecs, setup, encodedBucket(setup, 3));
}

bool expectHostileBytesLikeReference(std::span<const host::HostCodec> codecs, Backend backend,
                                     const DifferentialCase& shape) {
  const Setup setup(backend, shape);
  SCOPED_TRACE(describe(setup));
  const auto bytes = hostileBytes(setup);
  const Outcome reduced = expectSameReduce(codecs, setup, bytes, Into::codes);
  const auto& residual = reduced.buffers[kReduceResidual];
  for (float each : fromElements(ElementType::fp32, residual.data(), residual.size() / 4))
    EXPECT_TRUE(std::isfinite(each));
  expectSameReduce(codecs, setup, bytes, Into::values);
  return expectSameDecode(codecs, setup, bytes).fault == 0;
}

void expectAllReducesLikeReference(const host::HostCodec& codec, const Collective& settings,
                                   uint32_t nCalls) {
  VirtualRanks found(settings, codec), expected(settings, reference());
  for (uint32_t call = 0; call < nCalls; ++call) {
    for (uint32_t rank = 0; rank < settings.nRanks; ++rank) {
      const auto values = gaussian(settings.count, 100 * call + rank, 0.01f);
      found.setInput(rank, values);
      expected.setInput(rank, values);
    }
    found.run();
    expected.run();
    for (uint32_t rank = 0; rank < settings.nRanks; ++rank) {
      ASSERT_EQ(found[rank].output, expected[rank].output) << "call " << call << ", rank " << rank;
      ASSERT_EQ(found[rank].residual, expected[rank].residual) << "call " << call;
      ASSERT_EQ(found[rank].ownerResidual, expected[rank].ownerResidual) << "call " << call;
      ASSERT_EQ(found[rank].state.ordinal, call + 2);
      ASSERT_EQ(found[rank].fault, 0u);
      expectSums(Backend::cuda, found[rank].state.error, expected[rank].state.error, "allreduce");
    }
  }
}

}  // namespace cinch::test
