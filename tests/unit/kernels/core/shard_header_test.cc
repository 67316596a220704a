#include "kernels/core/shard_header.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/codec/registry.h"

namespace cinch::core {
namespace {

CallContext someCall() {
  return {{5000, 4, codec::formatOf("q4")}, ElementType::bf16, 0xdeadbeef, 77, nullptr, nullptr};
}

TEST(ShardHeader, BytesAreThoseOfTheFormat) {
  const wire::ShardHeader header = makeHeader(someCall(), 0x01020304);
  const uint8_t expected[16] = {0x9c, 0xc1, 1, 4, 0xef, 0xbe, 0xad, 0xde, 77, 0, 0, 0, 4, 3, 2, 1};
  EXPECT_EQ(std::memcmp(&header, expected, sizeof expected), 0);
}

TEST(ShardHeader, SameHeaderHasNoFault) {
  EXPECT_EQ(headerFaults(makeHeader(someCall(), 9), makeHeader(someCall(), 9)), 0u);
}

// Every bit of every field is compared, and reported as that field's.
TEST(ShardHeader, EveryBitCounts) {
  constexpr uint32_t kFaultOfByte[16] = {
      kFaultMagic,   kFaultMagic,   kFaultVersion, kFaultCodec,  kFaultPlan, kFaultPlan,
      kFaultPlan,    kFaultPlan,    kFaultSlot,    kFaultSlot,   kFaultSlot, kFaultSlot,
      kFaultOrdinal, kFaultOrdinal, kFaultOrdinal, kFaultOrdinal};
  const wire::ShardHeader expected = makeHeader(someCall(), 9);
  for (uint32_t bit = 0; bit < 128; ++bit) {
    uint8_t bytes[16];
    std::memcpy(bytes, &expected, sizeof bytes);
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ 1 << bit % 8);
    wire::ShardHeader found;
    std::memcpy(&found, bytes, sizeof found);
    EXPECT_EQ(headerFaults(found, expected), kFaultOfByte[bit / 8]) << bit;
  }
}

TEST(ShardHeader, AllFaultsAtOnce) {
  EXPECT_EQ(headerFaults({}, makeHeader(someCall(), 9)), 63u);
}

}  // namespace
}  // namespace cinch::core
