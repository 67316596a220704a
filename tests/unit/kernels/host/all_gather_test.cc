// An AllGather's parts: every rank codes its own shard alone, and all decode the whole bucket.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/unit/kernels/data_sets.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

using wire::ShardLayout;

constexpr uint32_t kPlan = 0x77, kSlot = 9, kOrdinal = 40;

struct Gather {
  uint64_t shardElems;
  uint32_t nRanks;
  wire::CodecFormat codec;
  ElementType type;

  ShardLayout layout() const { return ShardLayout::fixed(shardElems, nRanks, codec); }
  size_t shardBytes() const { return shardElems * elementBytes(type); }
};

struct Call {
  SlotState state{};
  uint32_t fault = 0;

  Call() { state.ordinal = kOrdinal; }
  CallContext of(const ShardLayout& layout, ElementType type) {
    return {layout, type, kPlan, kSlot, &state, &fault};
  }
};

void encode(const host::HostCodec& codec, const CallContext& call, const uint8_t* input,
            uint8_t* output) {
  codec.encodeShards({.call = call, .input = input, .residual = nullptr, .output = output});
}

// Every shard coded by itself, in its place in the gathered buffer.
std::vector<uint8_t> gathered(const host::HostCodec& codec, const Gather& gather,
                              const std::vector<uint8_t>& values) {
  const ShardLayout layout = gather.layout();
  std::vector<uint8_t> bytes(layout.totalBytes(), 0xee);
  for (uint32_t rank = 0; rank < gather.nRanks; ++rank) {
    Call call;
    encode(codec, call.of(ShardLayout::fixed(gather.shardElems, 1, gather.codec), gather.type),
           &values[rank * gather.shardBytes()], &bytes[rank * layout.strideBytes()]);
  }
  return bytes;
}

std::vector<Gather> allGathers() {
  std::vector<Gather> all;
  for (uint64_t shardElems : {1, 127, 1024, 1025, 2500})
    for (uint32_t nRanks : {1, 2, 5})
      for (const codec::CodecInfo& codec : codec::kCodecs)
        for (ElementType type : kTypes) all.push_back({shardElems, nRanks, codec.format, type});
  return all;
}

std::vector<uint8_t> wholeBucket(const Gather& gather, uint32_t seed) {
  return toElements(gather.type, awkward(gather.layout().count, seed));
}

TEST(AllGather, OneShardLaunchesGiveTheBytesOfTheWholeLayout) {
  for (const Gather& gather : allGathers()) {
    const std::vector<uint8_t> values = wholeBucket(gather, 3);
    for (const host::HostCodec& codec : host::hostCodecs()) {
      Call call;
      std::vector<uint8_t> whole(gather.layout().totalBytes(), 0xee);
      encode(codec, call.of(gather.layout(), gather.type), values.data(), whole.data());
      ASSERT_EQ(gathered(codec, gather, values), whole) << codec.name << " " << gather.shardElems;
    }
  }
}

// Headers that a reader of the whole layout accepts, values near to what they were, and all of it
// with the input inside the output, where an in-place AllGather has it.
TEST(AllGather, AllRanksDecodeAllShardsInPlace) {
  for (const Gather& gather : allGathers()) {
    const std::vector<float> exact = gaussian(gather.layout().count, 5);
    const std::vector<uint8_t> values = toElements(gather.type, exact);
    for (const host::HostCodec& codec : host::hostCodecs()) {
      const std::vector<uint8_t> bytes = gathered(codec, gather, values);
      Call call;
      std::vector<uint8_t> output = values;
      codec.decodeShards({.call = call.of(gather.layout(), gather.type),
                          .input = bytes.data(),
                          .output = output.data()});
      ASSERT_EQ(call.fault, 0u) << codec.name;
      ASSERT_EQ(call.state.ordinal, kOrdinal + 1);
      ASSERT_EQ(call.state.poisonOrdinal, 0u);
      const std::vector<float> decoded =
          fromElements(gather.type, output.data(), gather.layout().count);
      ASSERT_LT(nmse(decoded, {exact.begin(), exact.end()}), 0.6)
          << codec.name << " " << nameOf(gather.codec) << " " << gather.shardElems;
    }
  }
}

TEST(AllGather, AShardOfAnotherCallIsRefused) {
  const Gather gather{1025, 3, codec::formatOf("q8"), ElementType::bf16};
  for (const host::HostCodec& codec : host::hostCodecs()) {
    std::vector<uint8_t> bytes = gathered(codec, gather, wholeBucket(gather, 1));
    ++bytes[gather.layout().strideBytes() + 12];
    Call call;
    std::vector<uint8_t> output(3 * gather.shardBytes());
    codec.decodeShards({.call = call.of(gather.layout(), gather.type),
                        .input = bytes.data(),
                        .output = output.data()});
    EXPECT_EQ(call.fault, static_cast<uint32_t>(kFaultOrdinal));
    const std::vector<float> middle = fromElements(gather.type, &output[gather.shardBytes()],
                                                   static_cast<size_t>(gather.shardElems));
    for (float value : middle) ASSERT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace cinch::test
