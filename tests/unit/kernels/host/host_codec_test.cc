// Every compilation of the host codec gives the bytes of the reference, for any count, alignment
// and content, and touches nothing else.
#include "kernels/host/host_codec.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "tests/unit/kernels/support.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace cinch::test {
namespace {

struct Shape {
  uint64_t count;
  uint32_t nShards;
  wire::Codec codec;
  ElementType type;
  uint32_t seed;

  wire::ShardLayout layout() const { return {count, nShards, codec}; }
  uint32_t shard() const { return seed % nShards; }
  // In elements and in bytes, from a 64-byte boundary.
  size_t elementOffset() const { return seed % 7 * elementBytes(type); }
  size_t floatOffset() const { return seed % 5 * sizeof(float); }
  size_t byteOffset() const { return seed % 3 ? seed % 61 : 0; }
  bool feedback() const { return seed % 4 != 0; }
  bool poisoned() const { return seed % 11 == 3; }
};

// A shape for every seed; counts come from outside.
Shape shapeOf(uint64_t count, uint32_t seed) {
  return {count, 1 + seed % 9, kCodecs[seed % 3], kTypes[seed / 3 % 3], seed};
}

std::vector<uint8_t> bytesOf(const std::vector<float>& values) {
  return toElements(ElementType::fp32, values);
}

// Everything that a launch may write, and the guards around it.
struct Outcome {
  std::vector<std::vector<uint8_t>> buffers;
  SlotState state{};
  uint32_t fault = 0;
  bool isIntact = true;

  void keep(const GuardedBytes& bytes) {
    buffers.push_back(bytes.content());
    isIntact &= bytes.isIntact();
  }
};

void expectSame(const Outcome& found, const Outcome& expected, const char* what) {
  ASSERT_TRUE(found.isIntact) << what << " wrote outside its buffers";
  ASSERT_EQ(found.fault, expected.fault) << what;
  ASSERT_EQ(std::memcmp(&found.state, &expected.state, sizeof found.state), 0) << what;
  ASSERT_EQ(found.buffers.size(), expected.buffers.size());
  for (size_t i = 0; i < found.buffers.size(); ++i) {
    const auto differ = std::mismatch(found.buffers[i].begin(), found.buffers[i].end(),
                                      expected.buffers[i].begin(), expected.buffers[i].end());
    ASSERT_EQ(differ.first, found.buffers[i].end())
        << what << ", buffer " << i << ", byte " << differ.first - found.buffers[i].begin();
  }
}

void start(const Shape& shape, Outcome& outcome) {
  outcome.state.ordinal = 41 + shape.seed;
  if (shape.poisoned()) outcome.state.poisonOrdinal = outcome.state.ordinal;
}

CallContext callOf(const Shape& shape, Outcome& outcome) {
  return {shape.layout(), shape.type, 0xabcd, 2, &outcome.state, &outcome.fault};
}

Outcome encode(const host::HostCodec& codec, const Shape& shape) {
  Outcome outcome;
  start(shape, outcome);
  const GuardedBytes input(toElements(shape.type, awkward(shape.count, shape.seed)),
                           shape.elementOffset());
  GuardedBytes residual(bytesOf(gaussian(shape.count, shape.seed + 1, 0.3f)), shape.floatOffset());
  GuardedBytes output(shape.layout().totalBytes(), shape.byteOffset());
  std::memset(output.data(), 0xee, output.size());
  const int32_t skipShard = shape.seed % 2 ? static_cast<int32_t>(shape.shard()) : -1;
  codec.encodeShards({callOf(shape, outcome), input.data(),
                      shape.feedback() ? residual.floats() : nullptr, 0.1f, output.data(),
                      skipShard, shape.seed % 5 == 0});
  outcome.keep(input);
  outcome.keep(residual);
  outcome.keep(output);
  return outcome;
}

Outcome reduce(const host::HostCodec& codec, const Shape& shape,
               const std::vector<uint8_t>& peerBytes) {
  Outcome outcome;
  start(shape, outcome);
  const uint64_t count = shape.layout().shardElems(shape.shard());
  const GuardedBytes peers(peerBytes, shape.byteOffset());
  const GuardedBytes own(toElements(shape.type, awkward(count, shape.seed)), shape.elementOffset());
  GuardedBytes ownResidual(bytesOf(gaussian(count, shape.seed + 1, 0.3f)), shape.floatOffset());
  GuardedBytes residual(bytesOf(gaussian(count, shape.seed + 2, 0.3f)), shape.floatOffset());
  GuardedBytes output(shape.layout().strideBytes(), shape.byteOffset());
  std::memset(output.data(), 0xee, output.size());
  codec.reduceShard({callOf(shape, outcome), shape.shard(), peers.data(), own.data(),
                     shape.feedback() ? ownResidual.floats() : nullptr,
                     shape.feedback() ? residual.floats() : nullptr, 0.1f,
                     1.0f / static_cast<float>(shape.nShards), output.data(), shape.seed % 5 == 0});
  for (const GuardedBytes* bytes : {&peers, &own}) outcome.keep(*bytes);
  for (const GuardedBytes* bytes : {&ownResidual, &residual, &output}) outcome.keep(*bytes);
  return outcome;
}

Outcome decode(const host::HostCodec& codec, const Shape& shape,
               const std::vector<uint8_t>& encoded) {
  Outcome outcome;
  start(shape, outcome);
  const GuardedBytes input(encoded, shape.byteOffset());
  GuardedBytes output(shape.count * elementBytes(shape.type), shape.elementOffset());
  codec.decodeShards({callOf(shape, outcome), input.data(), output.data()});
  outcome.keep(input);
  outcome.keep(output);
  return outcome;
}

// The bucket as the reference encodes it, without feedback.
std::vector<uint8_t> encodedBucket(const Shape& shape, uint32_t seed) {
  Outcome outcome;
  start(shape, outcome);
  const auto input = toElements(shape.type, awkward(shape.count, seed));
  std::vector<uint8_t> output(shape.layout().totalBytes());
  host::findHostCodec("reference")
      ->encodeShards({callOf(shape, outcome), input.data(), nullptr, 0, output.data(), -1, false});
  return output;
}

// The owned shard as all ranks would send it.
std::vector<uint8_t> peersOf(const Shape& shape) {
  const auto stride = shape.layout().strideBytes();
  std::vector<uint8_t> peers;
  for (uint32_t rank = 0; rank < shape.nShards; ++rank) {
    const std::vector<uint8_t> sent = encodedBucket(shape, shape.seed + 1000 * (rank + 1));
    const auto begin = sent.begin() + static_cast<ptrdiff_t>(shape.shard() * stride);
    peers.insert(peers.end(), begin, begin + static_cast<ptrdiff_t>(stride));
  }
  return peers;
}

const host::HostCodec& reference() {
  return *host::findHostCodec("reference");
}

// All that this CPU can run, but for the reference itself.
std::span<const host::HostCodec> variants() {
  return host::hostCodecs().first(host::hostCodecs().size() - 1);
}

void expectLikeReference(const Shape& shape) {
  SCOPED_TRACE(testing::Message() << shape.count << " x " << nameOf(shape.type) << ", "
                                  << nameOf(shape.codec) << ", shards " << shape.nShards
                                  << ", seed " << shape.seed);
  const auto peers = peersOf(shape);
  const auto encoded = encodedBucket(shape, shape.seed);
  const Outcome afterEncode = encode(reference(), shape);
  const Outcome afterReduce = reduce(reference(), shape, peers);
  const Outcome afterDecode = decode(reference(), shape, encoded);
  for (const host::HostCodec& codec : variants()) {
    SCOPED_TRACE(codec.name);
    expectSame(encode(codec, shape), afterEncode, "encode");
    expectSame(reduce(codec, shape, peers), afterReduce, "reduce");
    expectSame(decode(codec, shape, encoded), afterDecode, "decode");
  }
}

TEST(HostCodecs, EveryCountEqualsTheReference) {
  for (uint32_t count = 0; count <= 3000 && !testing::Test::HasFailure(); ++count)
    expectLikeReference(shapeOf(count, count * 7 + count / 27));
}

TEST(HostCodecs, LargeBucketsEqualTheReference) {
  for (uint32_t seed = 0; seed < 27 && !testing::Test::HasFailure(); ++seed)
    expectLikeReference(shapeOf(60000 + seed * 777, seed));
}

#if defined(__SSE__)
// A program that flushes subnormal numbers, or rounds otherwise, gets the same bytes.
TEST(HostCodecs, IgnoreTheThreadsFloatModes) {
  const Shape shape = shapeOf(5000, 15);
  const Outcome expected = encode(reference(), shape);
  const auto input = toElements(shape.type, awkward(shape.count, shape.seed));
  const unsigned saved = _mm_getcsr();
  const unsigned odd = saved | 0x8040 | 0x6000;  // flush both ways, round toward zero
  for (const host::HostCodec& codec : host::hostCodecs()) {
    auto residual = gaussian(shape.count, shape.seed + 1, 0.3f);
    std::vector<uint8_t> output(shape.layout().totalBytes(), 0xee);
    Outcome outcome;
    start(shape, outcome);
    const EncodeLaunch launch{callOf(shape, outcome),
                              input.data(),
                              residual.data(),
                              0.1f,
                              output.data(),
                              static_cast<int32_t>(shape.shard()),
                              false};
    _mm_setcsr(odd);
    codec.encodeShards(launch);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(saved);
    EXPECT_EQ(after, odd) << codec.name << " did not put the thread's modes back";
    EXPECT_EQ(bytesOf(residual), expected.buffers[1]) << codec.name;
    EXPECT_EQ(output, expected.buffers[2]) << codec.name;
  }
}
#endif

TEST(HostCodecs, AllVariantsWereTested) {
  for (const char* name : {"baseline", "avx2", "avx512"})
    if (!host::findHostCodec(name)) GTEST_SKIP() << "this CPU cannot run the " << name << " codec";
}

TEST(HostCodecs, FastestComesFirstReferenceLast) {
  ASSERT_GE(host::hostCodecs().size(), 2u);
  EXPECT_STREQ(host::hostCodecs().back().name, "reference");
  EXPECT_STREQ(host::fastestHostCodec().name, host::hostCodecs().front().name);
  EXPECT_STRNE(host::fastestHostCodec().name, "reference");
  EXPECT_EQ(host::findHostCodec("sse9"), nullptr);
}

}  // namespace
}  // namespace cinch::test
