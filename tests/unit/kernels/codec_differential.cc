#include "tests/unit/kernels/codec_differential.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "kernels/core/shard_header.h"
#include "kernels/wire/mixed_layout.h"
#include "tests/unit/kernels/data_sets.h"

namespace cinch::test {
namespace {

constexpr uint32_t kPlan = 0xabcd, kSlot = 2;
constexpr uint32_t kFillByte = 0xee;

// Those that runs of adaptive precision have: backends may have code of their own for them.
// A build for codecs from elsewhere has some of them.
std::vector<wire::CodecFormat> adaptiveFormats() {
  std::vector<wire::CodecFormat> formats;
  for (const char* const name : {"h2", "h3", "h4", "q4", "q5", "q6", "q8", "fp32", "bf16", "fp16"})
    if (const codec::CodecInfo* found = codec::findCodec(name)) formats.push_back(found->format);
  return formats;
}

wire::CodecFormat drawCodec(bool isAdaptive, std::mt19937& random) {
  static const std::vector<wire::CodecFormat> adaptive = adaptiveFormats();
  if (isAdaptive) return adaptive[random() % adaptive.size()];
  return codec::kCodecs[random() % codec::kCodecs.size()].format;
}

// Runs of tiles with codecs of their own.
std::vector<wire::Segment> drawSegments(uint64_t count, bool isAdaptive, std::mt19937& random) {
  std::vector<wire::Segment> segments;
  for (uint64_t left = wire::ShardLayout::tilesOf(count); left > 0;) {
    const uint64_t nTiles = std::min<uint64_t>(left, 1 + random() % 3);
    segments.push_back({nTiles, drawCodec(isAdaptive, random)});
    left -= nTiles;
  }
  return segments;
}

// Everything that a seed decides.
class Setup {
 public:
  Setup(Backend theBackend, const DifferentialCase& shape);
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  Backend backend;
  uint32_t seed;
  ElementType type;
  wire::ShardLayout layout;
  uint32_t shard;
  bool endsCall;
  int32_t skipShard;
  size_t valueOffset, residualOffset, codedOffset;  // bytes from a 64-byte boundary
  bool feedback, poisoned, inPlace;
  CodingRule rule;

  InputFactor inputFactor() const {
    return factorKind_ == 2 ? InputFactor{.device = factorElement_.data()}
                            : InputFactor{.value = factorKind_ == 1 ? 2.7f : 1.0f};
  }

  std::vector<uint8_t> values(uint64_t count, uint32_t salt) const {
    return toElements(type, awkward(count, seed + salt));
  }
  // Of the bucket, and of the shard.
  GuardedBytes residual() const {
    wire::ShardLayout whole = layout;
    whole.chunk = wire::kWholeShards;
    return GuardedBytes(toResidual(rule.residualType, whole, residualValues(layout.count, 1)),
                        residualOffset);
  }
  GuardedBytes ownerResidual() const {
    const uint64_t count = layout.shardElems(shard);
    return GuardedBytes(toResidual(rule.residualType, residualValues(count, 2)), residualOffset);
  }
  GuardedBytes coded(size_t nBytes) const {
    return GuardedBytes(std::vector<uint8_t>(nBytes, kFillByte), codedOffset);
  }

 private:
  void drawLayout(const DifferentialCase& shape, std::mt19937& random);
  void drawRule(std::mt19937& random);
  void makeDefault(const DifferentialCase& shape, std::mt19937& random);
  void drawOffsets(std::mt19937& random);
  std::vector<float> residualValues(uint64_t count, uint32_t salt) const {
    return gaussian(count, seed + salt, 0.3f);
  }

  std::optional<wire::MixedLayout> mixed_;  // what `layout` refers to
  uint32_t factorKind_;
  std::vector<uint8_t> factorElement_;
};

Setup::Setup(Backend theBackend, const DifferentialCase& shape)
    : backend(theBackend), seed(shape.seed) {
  std::mt19937 random(seed);
  type = kTypes[random() % 3];
  drawLayout(shape, random);
  shard = static_cast<uint32_t>(random()) % layout.nShards;
  endsCall = layout.nChunks == 1 || random() % 2;
  skipShard = random() % 2 ? static_cast<int32_t>(shard) : -1;
  feedback = random() % 4 != 0;
  poisoned = random() % 11 == 0;
  inPlace = random() % 2;
  factorKind_ = random() % 3;
  drawRule(random);
  if (shape.isDefault) makeDefault(shape, random);
  factorElement_ = toElements(type, {-0.37f});
  drawOffsets(random);
}

// Eighteen seeds in a row are all types, forms of residuals, and codecs alone and mixed; every
// fifth begins with residuals that are to be ignored.
void Setup::makeDefault(const DifferentialCase& shape, std::mt19937& random) {
  type = kTypes[shape.seed % 3];
  feedback = true;
  poisoned = shape.seed % 5 == 0;
  rule = {.gain = 0.1f,
          .residualType = shape.seed / 3 % 2 ? ResidualType::int8 : ResidualType::fp32};
  const char* const names[] = {"h3", "q4"};
  const uint32_t choice = shape.seed / 6 % 3;
  const codec::CodecInfo* codec = choice < 2 ? codec::findCodec(names[choice]) : nullptr;
  if (codec != nullptr) {
    layout = {shape.count, shape.nShards, codec->format};
  } else {
    mixed_.emplace(shape.count, shape.nShards, drawSegments(shape.count, true, random), 1);
    layout = mixed_->layout();
  }
  shard %= layout.nShards;
  endsCall = true;
}

void Setup::drawLayout(const DifferentialCase& shape, std::mt19937& random) {
  const wire::CodecFormat codec = codec::kCodecs[shape.seed % codec::kCodecs.size()].format;
  const auto nChunks = static_cast<uint32_t>(random() % 2 ? 1 : 2 + random() % 3);
  switch (random() % 3) {
    case 0:
      layout = {shape.count, shape.nShards, codec, 0, nChunks};
      break;
    case 1:
      layout = wire::ShardLayout::fixed(shape.count / shape.nShards, shape.nShards, codec);
      break;
    default:
      mixed_.emplace(shape.count, shape.nShards, drawSegments(shape.count, random() % 2, random),
                     nChunks);
      layout = mixed_->layout();
  }
  if (layout.nChunks > 1) layout = layout.ofChunk(static_cast<uint32_t>(random()) % nChunks);
}

void Setup::drawRule(std::mt19937& random) {
  constexpr float kGains[] = {0.1f, 1.0f, 0.5f}, kDecays[] = {1.0f, 0.9f, 0.5f};
  rule.gain = kGains[random() % 3];
  if (random() % 3 == 0) return;  // what most calls have
  rule.decay = kDecays[random() % 3];
  rule.residualType = kResidualTypes[random() % 3];
  rule.rounding = random() % 3 == 0 ? Rounding::stochastic : Rounding::nearest;
  rule.seed = uint64_t{random()} << 32 | random();
  rule.measure = random() % 5 == 0;
}

// int8 residuals are tiles, which never lie at odd places.
void Setup::drawOffsets(std::mt19937& random) {
  const bool misaligned = random() % 3 != 0;
  const uint32_t residualStep = rule.residualType == ResidualType::fp32   ? 4
                                : rule.residualType == ResidualType::bf16 ? 2
                                                                          : 16;
  valueOffset = misaligned ? random() % 7 * elementBytes(type) : 0;
  residualOffset = misaligned ? random() % 5 * residualStep : 0;
  codedOffset = backend == Backend::host ? random() % 61 : random() % 3 * 16;
}

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
    return {setup.layout, setup.type, kPlan, kSlot, &state, &fault, setup.endsCall};
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
  EXPECT_EQ(found.state.nonFinite, expected.state.nonFinite) << what;
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
  GuardedBytes residual = setup.residual();
  GuardedBytes output = setup.coded(setup.layout.totalBytes());
  codec.encodeShards({.call = outcome.call(setup),
                      .input = input.data(),
                      .inputFactor = setup.inputFactor(),
                      .residual = setup.feedback ? residual.data() : nullptr,
                      .rule = setup.rule,
                      .output = output.data(),
                      .skipShard = setup.skipShard});
  outcome.keep(input, residual, output);
  return outcome;
}

// All shards as the reference codes them, of data that `salt` decides.
std::vector<uint8_t> encodedBucket(const Setup& setup, uint32_t salt) {
  Outcome outcome(setup);
  const auto input = setup.values(setup.layout.count, salt);
  std::vector<uint8_t> all(setup.layout.totalBytes());
  referenceCodec().encodeShards({.call = outcome.call(setup),
                                 .input = input.data(),
                                 .residual = nullptr,
                                 .output = all.data()});
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

enum class Into { codes, values, valuesOfTwo };

const char* textOf(Into into) {
  constexpr const char* kNames[] = {"reduce", "reduce into values", "reduce of two codes"};
  return kNames[static_cast<size_t>(into)];
}

// The shard as the caller itself would have sent it.
std::vector<uint8_t> ownBytes(const Setup& setup) {
  const uint64_t stride = setup.layout.strideBytes();
  const auto all = encodedBucket(setup, 77);
  const auto first = all.begin() + static_cast<ptrdiff_t>(setup.shard * stride);
  return {first, first + static_cast<ptrdiff_t>(stride)};
}

// Among the buffers of a reduce.
constexpr size_t kReduceResidual = 3;

Outcome reduce(const host::HostCodec& codec, const Setup& setup, const std::vector<uint8_t>& bytes,
               Into into) {
  Outcome outcome(setup);
  const uint64_t count = setup.layout.shardElems(setup.shard);
  const bool codes = into == Into::codes, ofTwo = into == Into::valuesOfTwo;
  const GuardedBytes peers(bytes, setup.codedOffset);
  const GuardedBytes ownCodes(ofTwo ? ownBytes(setup) : std::vector<uint8_t>(), setup.codedOffset);
  GuardedBytes own(setup.values(count, 0), setup.valueOffset);
  GuardedBytes ownResidual = setup.residual(), residual = setup.ownerResidual();
  GuardedBytes output = setup.coded(setup.layout.strideBytes());
  GuardedBytes values(own.size(), setup.valueOffset);
  codec.reduceShard({.call = outcome.call(setup),
                     .shard = setup.shard,
                     .peers = peers.data(),
                     .ownInput = ofTwo ? nullptr : own.data(),
                     .ownCodes = ofTwo ? ownCodes.data() : nullptr,
                     .inputFactor = setup.inputFactor(),
                     .ownResidual = setup.feedback && !ofTwo ? ownResidual.data() : nullptr,
                     .residual = setup.feedback && codes ? residual.data() : nullptr,
                     .rule = setup.rule,
                     .factor = 1.0f / static_cast<float>(setup.layout.nShards),
                     .output = codes ? output.data() : nullptr,
                     .values = codes           ? nullptr
                               : setup.inPlace ? own.data()
                                               : values.data()});
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
  const wire::ShardLayout& layout = setup.layout;
  return std::to_string(layout.count) + " x " + nameOf(setup.type) + ", " +
         (layout.isMixed() ? "mixed" : nameOf(layout.codec)) + ", " +
         (layout.fixedShard ? "fixed " : "") + "shards " + std::to_string(layout.nShards) +
         (layout.nChunks > 1
              ? ", chunk " + std::to_string(layout.chunk) + " of " + std::to_string(layout.nChunks)
              : "") +
         ", seed " + std::to_string(setup.seed) + ", " +
         (setup.feedback ? "residual " + nameOf(setup.rule.residualType) : "no residual") +
         (setup.rule.rounding == Rounding::stochastic ? ", stochastic" : "");
}

// Runs `launch` on every codec; each must leave what the reference does, which is returned.
template <class Launch>
Outcome expectSameOfAll(std::span<const host::HostCodec> codecs, const Setup& setup,
                        const char* what, const Launch& launch) {
  const Outcome expected = launch(referenceCodec());
  for (const host::HostCodec& codec : codecs) {
    SCOPED_TRACE(codec.name);
    expectSame(setup.backend, launch(codec), expected, what);
  }
  return expected;
}

Outcome expectSameReduce(std::span<const host::HostCodec> codecs, const Setup& setup,
                         const std::vector<uint8_t>& peers, Into into) {
  return expectSameOfAll(codecs, setup, textOf(into),
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
  expectSameReduce(codecs, setup, peers, Into::valuesOfTwo);
  expectSameDecode(codecs, setup, encodedBucket(setup, 3));
}

bool expectHostileBytesLikeReference(std::span<const host::HostCodec> codecs, Backend backend,
                                     const DifferentialCase& shape) {
  const Setup setup(backend, shape);
  SCOPED_TRACE(describe(setup));
  const auto bytes = hostileBytes(setup);
  const Outcome reduced = expectSameReduce(codecs, setup, bytes, Into::codes);
  for (float each : fromResidual(setup.rule.residualType, reduced.buffers[kReduceResidual].data(),
                                 setup.layout.shardElems(setup.shard)))
    EXPECT_TRUE(std::isfinite(each));
  expectSameReduce(codecs, setup, bytes, Into::values);
  expectSameReduce(codecs, setup, bytes, Into::valuesOfTwo);
  return expectSameDecode(codecs, setup, bytes).fault == 0;
}

void expectAllReducesLikeReference(const host::HostCodec& codec, const Collective& settings,
                                   uint32_t nCalls) {
  VirtualRanks found(settings, codec), expected(settings, referenceCodec());
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
