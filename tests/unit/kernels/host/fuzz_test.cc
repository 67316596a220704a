// Any bytes may come from a peer: reduce and decode must stay inside their buffers, end, and give
// what the reference gives.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/core/shard_header.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

struct Message {
  wire::ShardLayout layout;
  ElementType type;
  std::vector<uint8_t> bytes;
};

// Random bytes; most of the time with headers that are accepted, so that the rest is looked at, and
// sometimes with pairs at the edges of their range.
Message randomMessage(std::mt19937& random) {
  Message message{{random() % 5000, static_cast<uint32_t>(1 + random() % 5), kCodecs[random() % 3]},
                  kTypes[random() % 3],
                  {}};
  const wire::ShardLayout& layout = message.layout;
  message.bytes.resize(layout.totalBytes());
  for (uint8_t& byte : message.bytes) byte = static_cast<uint8_t>(random());
  const CallContext call{layout, message.type, 1, 2, nullptr, nullptr};
  for (uint32_t shard = 0; shard < layout.nShards; ++shard) {
    if (random() % 8 == 0) continue;
    const wire::ShardHeader header = core::makeHeader(call, 3);
    std::memcpy(&message.bytes[shard * layout.strideBytes()], &header, sizeof header);
  }
  return message;
}

struct Outcome {
  std::vector<uint8_t> reduced, decoded, residual;
  SlotState state{};
  uint32_t fault = 0;
  bool isIntact = true;
};

Outcome runOn(const host::HostCodec& codec, const Message& message, uint32_t shard) {
  Outcome outcome;
  outcome.state.ordinal = 3;
  const uint64_t count = message.layout.count, owned = message.layout.shardElems(shard);
  const CallContext call{message.layout, message.type, 1, 2, &outcome.state, &outcome.fault};
  const GuardedBytes input(message.bytes), own(owned * elementBytes(message.type), 0);
  GuardedBytes ownResidual(owned * 4, 0), residual(owned * 4, 4);
  GuardedBytes reduced(message.layout.strideBytes(), 1);
  GuardedBytes decoded(count * elementBytes(message.type), elementBytes(message.type));
  codec.reduceShard({call, shard, input.data(), own.data(), ownResidual.floats(), residual.floats(),
                     0.5f, 1.0f, reduced.data(), true});
  codec.decodeShards({call, input.data(), decoded.data()});
  outcome.isIntact = input.isIntact() && own.isIntact() && ownResidual.isIntact() &&
                     residual.isIntact() && reduced.isIntact() && decoded.isIntact();
  outcome.reduced = reduced.content();
  outcome.decoded = decoded.content();
  outcome.residual = residual.content();
  return outcome;
}

TEST(Fuzz, RandomBytesGiveTheReferencesResult) {
  std::mt19937 random(20);
  const host::HostCodec& reference = *host::findHostCodec("reference");
  int nAccepted = 0;
  for (int round = 0; round < 3000 && !HasFailure(); ++round) {
    const Message message = randomMessage(random);
    const auto shard = static_cast<uint32_t>(random() % message.layout.nShards);
    const Outcome expected = runOn(reference, message, shard);
    nAccepted += expected.fault == 0;
    for (float residual :
         fromElements(ElementType::fp32, expected.residual.data(), expected.residual.size() / 4))
      ASSERT_TRUE(std::isfinite(residual));
    for (const host::HostCodec& codec : host::hostCodecs()) {
      const Outcome found = runOn(codec, message, shard);
      ASSERT_TRUE(found.isIntact) << codec.name << " round " << round;
      ASSERT_EQ(found.fault, expected.fault) << codec.name << " round " << round;
      ASSERT_EQ(found.reduced, expected.reduced) << codec.name << " round " << round;
      ASSERT_EQ(found.decoded, expected.decoded) << codec.name << " round " << round;
      ASSERT_EQ(found.residual, expected.residual) << codec.name << " round " << round;
      ASSERT_EQ(std::memcmp(&found.state, &expected.state, sizeof found.state), 0)
          << codec.name << " round " << round;
    }
  }
  EXPECT_GT(nAccepted, 500);
}

}  // namespace
}  // namespace cinch::test
