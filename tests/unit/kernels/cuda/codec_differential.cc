#include "tests/unit/kernels/cuda/codec_differential.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/core/shard_header.h"
#include "tests/golden/golden_file.h"

namespace cinch::test {
namespace {

constexpr uint32_t kPlan = 0xabcd, kSlot = 2;
constexpr uint32_t kFillByte = 0xee;

const host::HostCodec& reference() {
  return *host::findHostCodec("reference");
}

// Everything that a seed decides.
struct Setup {
  explicit Setup(const DifferentialCase& shape)
      : layout{shape.count, shape.nShards, kCodecs[shape.seed % 3]},
        type(kTypes[shape.seed / 3 % 3]),
        seed(shape.seed),
        shard(shape.seed % shape.nShards),
        skipShard(shape.seed % 2 ? static_cast<int32_t>(shard) : -1),
        valueOffset(shape.seed / 9 % 3 ? shape.seed % 7 * elementBytes(type) : 0),
        residualOffset(shape.seed / 9 % 3 ? shape.seed % 5 * sizeof(float) : 0),
        codedOffset(shape.seed % 3 * 16),
        feedback(shape.seed % 4 != 0),
        poisoned(shape.seed % 11 == 3),
        measures(shape.seed % 5 == 0) {}

  wire::ShardLayout layout;
  ElementType type;
  uint32_t seed;
  uint32_t shard;
  int32_t skipShard;
  size_t valueOffset, residualOffset, codedOffset;  // bytes from a 64-byte boundary
  bool feedback, poisoned, measures;

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

void expectSums(const double (&found)[2], const double (&expected)[2], const char* what) {
  for (int stage = 0; stage < 2; ++stage)
    EXPECT_NEAR(found[stage], expected[stage], 1e-9 * std::abs(expected[stage])) << what;
}

void expectSame(const Outcome& found, const Outcome& expected, const char* what) {
  EXPECT_TRUE(found.isIntact) << what << " wrote outside its buffers";
  EXPECT_EQ(found.fault, expected.fault) << what;
  EXPECT_EQ(found.state.ordinal, expected.state.ordinal) << what;
  EXPECT_EQ(found.state.poisonOrdinal, expected.state.poisonOrdinal) << what;
  EXPECT_EQ(found.state.ticket, 0u) << what;
  expectSums(found.state.error, expected.state.error, what);
  expectSums(found.state.power, expected.state.power, what);
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
  codec.encodeShards({outcome.call(setup), input.data(),
                      setup.feedback ? residual.floats() : nullptr, 0.1f, output.data(),
                      setup.skipShard, setup.measures});
  outcome.keep(input, residual, output);
  return outcome;
}

// What every rank would send for the shard: different data of each.
std::vector<uint8_t> peerBytes(const Setup& setup) {
  const uint64_t stride = setup.layout.strideBytes();
  std::vector<uint8_t> all(setup.layout.totalBytes()), peers(all.size());
  for (uint32_t rank = 0; rank < setup.layout.nShards; ++rank) {
    Outcome outcome(setup);
    const auto input = setup.values(setup.layout.count, 1000 * (rank + 1));
    reference().encodeShards(
        {outcome.call(setup), input.data(), nullptr, 0, all.data(), -1, false});
    std::memcpy(&peers[rank * stride], &all[setup.shard * stride], stride);
  }
  return peers;
}

Outcome reduce(const host::HostCodec& codec, const Setup& setup,
               const std::vector<uint8_t>& bytes) {
  Outcome outcome(setup);
  const uint64_t count = setup.layout.shardElems(setup.shard);
  const GuardedBytes peers(bytes, setup.codedOffset);
  const GuardedBytes own(setup.values(count, 0), setup.valueOffset);
  GuardedBytes ownResidual = setup.residual(count, 1), residual = setup.residual(count, 2);
  GuardedBytes output = setup.coded(setup.layout.strideBytes());
  codec.reduceShard({outcome.call(setup), setup.shard, peers.data(), own.data(),
                     setup.feedback ? ownResidual.floats() : nullptr,
                     setup.feedback ? residual.floats() : nullptr, 0.1f,
                     1.0f / static_cast<float>(setup.layout.nShards), output.data(),
                     setup.measures});
  outcome.keep(peers, own, ownResidual, residual, output);
  return outcome;
}

Outcome decode(const host::HostCodec& codec, const Setup& setup,
               const std::vector<uint8_t>& bytes) {
  Outcome outcome(setup);
  const GuardedBytes input(bytes, setup.codedOffset);
  GuardedBytes output(setup.layout.count * elementBytes(setup.type), setup.valueOffset);
  codec.decodeShards({outcome.call(setup), input.data(), output.data()});
  outcome.keep(input, output);
  return outcome;
}

std::vector<uint8_t> gatheredBytes(const Setup& setup) {
  Outcome outcome(setup);
  const auto input = setup.values(setup.layout.count, 3);
  std::vector<uint8_t> all(setup.layout.totalBytes());
  reference().encodeShards({outcome.call(setup), input.data(), nullptr, 0, all.data(), -1, false});
  return all;
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

// The launches of a golden file, from the sections that it says they start from.
void expectGoldenFile(const host::HostCodec& codec, const GoldenFile& golden) {
  const GoldenParameters p = golden.parameters();
  const wire::ShardLayout layout = golden.layout();
  SlotState state{};
  state.ordinal = p.ordinal;
  uint32_t fault = 0;
  const CallContext call{layout, golden.type(), p.planId, p.slot, &state, &fault};
  const uint64_t first = layout.firstElem(p.ownShard);
  const std::vector<uint8_t>& input = golden.section("input");
  GuardedBytes residual(golden.section("residual")), spent(golden.section("residual"));
  GuardedBytes ownerResidual(golden.section("ownerResidual"));
  GuardedBytes encoded(layout.totalBytes(), 0), reduced(layout.strideBytes(), 0);
  GuardedBytes decoded(input.size(), 0);

  codec.encodeShards({call, input.data(), residual.floats(), p.gain, encoded.data(), -1, false});
  codec.reduceShard({call, p.ownShard, golden.section("peers").data(),
                     &input[first * elementBytes(golden.type())], spent.floats() + first,
                     ownerResidual.floats(), p.gain, p.factor, reduced.data(), false});
  codec.decodeShards({call, golden.section("encoded").data(), decoded.data()});
  EXPECT_EQ(encoded.content(), golden.section("encoded"));
  EXPECT_EQ(residual.content(), golden.section("nextResidual"));
  EXPECT_EQ(reduced.content(), golden.section("reduced"));
  EXPECT_EQ(ownerResidual.content(), golden.section("nextOwnerResidual"));
  EXPECT_EQ(decoded.content(), golden.section("decoded"));
  EXPECT_EQ(fault, 0u);
}

std::string describe(const Setup& setup) {
  return std::to_string(setup.layout.count) + " x " + nameOf(setup.type) + ", " +
         nameOf(setup.layout.codec) + ", shards " + std::to_string(setup.layout.nShards) +
         ", seed " + std::to_string(setup.seed);
}

}  // namespace

void expectLikeReference(const host::HostCodec& codec, const DifferentialCase& shape) {
  const Setup setup(shape);
  SCOPED_TRACE(describe(setup));
  expectSame(encode(codec, setup), encode(reference(), setup), "encode");
  const auto peers = peerBytes(setup);
  expectSame(reduce(codec, setup, peers), reduce(reference(), setup, peers), "reduce");
  const auto gathered = gatheredBytes(setup);
  expectSame(decode(codec, setup, gathered), decode(reference(), setup, gathered), "decode");
}

void expectGoldenVectors(const host::HostCodec& codec) {
  for (const wire::Codec bits : kCodecs)
    for (const ElementType type : kTypes) {
      const std::string name = nameOf(bits) + "_" + nameOf(type) + ".bin";
      SCOPED_TRACE(name);
      const auto golden = GoldenFile::read(CINCH_GOLDEN_FOLDER "/v1/" + name);
      ASSERT_TRUE(golden.ok()) << golden.error().message;
      expectGoldenFile(codec, golden.value());
    }
}

void expectHostileBytesLikeReference(const host::HostCodec& codec, uint32_t seed) {
  const Setup setup({1 + seed * 997 % 4000, 1 + seed % 5, seed});
  SCOPED_TRACE(describe(setup));
  const auto bytes = hostileBytes(setup);
  expectSame(reduce(codec, setup, bytes), reduce(reference(), setup, bytes), "reduce");
  expectSame(decode(codec, setup, bytes), decode(reference(), setup, bytes), "decode");
}

void expectAllReducesLikeReference(const host::HostCodec& codec, const AllReduce& settings,
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
      expectSums(found[rank].state.error, expected[rank].state.error, "allreduce");
    }
  }
}

}  // namespace cinch::test
