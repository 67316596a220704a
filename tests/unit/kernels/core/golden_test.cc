// Every compilation of the codec agrees with the committed vectors of wire version 1, byte for
// byte.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/codec/registry.h"
#include "tests/unit/kernels/golden_vectors.h"

namespace cinch::test {
namespace {

TEST(Golden, EveryHostCodecAgrees) {
  for (const host::HostCodec& codec : host::hostCodecs()) {
    SCOPED_TRACE(codec.name);
    expectGoldenVectors(codec);
  }
}

TEST(Golden, EveryCodecHasVectors) {
  expectVectorsOfAllCodecs();
}

// The example of docs/wire-format.md.
TEST(GoldenExample, FiveValuesAtFourBits) {
  const float values[] = {0.0f, 1.0f, 2.0f, 15.0f, 7.5f};
  const wire::ShardLayout layout{5, 1, codec::formatOf("q4")};
  for (const host::HostCodec& codec : host::hostCodecs()) {
    SlotState state{};
    state.ordinal = 1;
    std::vector<uint8_t> expected(560, 0), encoded(layout.totalBytes(), 0xee);
    const uint8_t header[] = {0x9c, 0xc1, 1, 4, 0x44, 0x33, 0x22, 0x11, 2, 0, 0, 0, 1, 0, 0, 0};
    std::memcpy(&expected[0], header, sizeof header);
    const uint8_t pair[] = {0x80, 0x3f, 0, 0};
    std::memcpy(&expected[16], pair, sizeof pair);
    const uint8_t codes[] = {0x10, 0xf2, 0x08};
    std::memcpy(&expected[48], codes, sizeof codes);
    codec.encodeShards({.call = {layout, ElementType::fp32, 0x11223344, 2, &state, nullptr},
                        .input = values,
                        .residual = nullptr,
                        .output = encoded.data()});
    EXPECT_EQ(encoded, expected) << codec.name;
  }
}

}  // namespace
}  // namespace cinch::test
