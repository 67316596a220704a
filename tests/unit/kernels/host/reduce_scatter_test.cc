// Encode and reduce into values put together: what a ReduceScatter of virtual ranks promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/unit/kernels/data_sets.h"
#include "tests/unit/kernels/virtual_ranks.h"

namespace cinch::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint32_t seedOf(uint32_t seed, size_t rank) {
  return seed * 100 + static_cast<uint32_t>(rank);
}

void setGaussianInputs(VirtualRanks& ranks, uint32_t seed) {
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    ranks.setInput(rank, gaussian(ranks.layout().count, seedOf(seed, rank)));
}

// Half a unit in the last place of the type, relative to the value.
double roundingOf(ElementType type) {
  return type == ElementType::fp32 ? 0x1p-24 : type == ElementType::fp16 ? 0x1p-11 : 0x1p-9;
}

// The codecs whose error has a bound that is easily said.
constexpr wire::CodecFormat kBoundedCodecs[] = {codec::formatOf("q2"), codec::formatOf("q4"),
                                                codec::formatOf("q8")};

// What coding one block may add to each of its values: half a step, and what the two bf16 numbers
// of its pair have lost.
double codingBound(wire::CodecFormat codec, const double* first, const double* end) {
  const auto [low, high] = std::minmax_element(first, end);
  const double range = *high - *low, largest = std::max(std::abs(*low), std::abs(*high));
  const double step = range / ((1 << codec.bits) - 1);
  return step / 2 * (1 + 0x1p-8) + (std::abs(*low) + range) * 0x1p-8 + largest * 0x1p-20;
}

// The exact sum of the owner's shard in double precision, and how far a value may be from it.
struct Oracle {
  std::vector<double> sum, bound;

  Oracle(const VirtualRanks& ranks, const Collective& settings, uint32_t owner)
      : sum(settings.fixedShard), bound(settings.fixedShard) {
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      addPart(ranks.inputOf(rank), settings, ranks.layout().firstElem(owner), rank == owner);
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] *= settings.factor;
      bound[i] = bound[i] * settings.factor + std::abs(sum[i]) * 2 * roundingOf(settings.type);
    }
  }

 private:
  void addPart(const std::vector<float>& input, const Collective& settings, uint64_t first,
               bool isOwn) {
    std::vector<double> part(sum.size());
    for (size_t i = 0; i < part.size(); ++i)
      part[i] = static_cast<double>(input[first + i]) * settings.inputFactor.value;
    for (size_t i = 0; i < part.size(); i += wire::kBlockElems) {
      const size_t end = std::min<size_t>(part.size(), i + wire::kBlockElems);
      const double coding = codingBound(settings.codec, &part[i], part.data() + end);
      for (size_t at = i; at < end; ++at) {
        sum[at] += part[at];
        bound[at] += std::abs(part[at]) * 0x1p-20 + (isOwn ? 0 : coding);
      }
    }
  }
};

class ReduceScatterTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    codec_ = host::findHostCodec(GetParam());
    if (!codec_) GTEST_SKIP() << "this CPU cannot run the " << GetParam() << " codec";
  }
  const host::HostCodec* codec_ = nullptr;
};

// Shards of every awkward size, none of which but a few starts at a block of the bucket.
constexpr uint64_t kShardSizes[] = {1, 5, 127, 128, 129, 1000, 1024, 1025, 3001};

TEST_P(ReduceScatterTest, ValuesAreTheExactSumWithinTheCodecsBound) {
  uint32_t seed = 0;
  for (uint64_t shardElems : kShardSizes)
    for (wire::CodecFormat bits : kBoundedCodecs)
      for (ElementType type : kTypes) {
        const uint32_t nRanks = 1 + ++seed % 5;
        const Collective settings{.fixedShard = shardElems,
                                  .nRanks = nRanks,
                                  .codec = bits,
                                  .type = type,
                                  .inputFactor = {.value = seed % 2 ? 1.0f : -0.3f},
                                  .factor = seed % 3 ? 1.0f : 1.0f / static_cast<float>(nRanks)};
        SCOPED_TRACE(testing::Message() << shardElems << " values of " << nameOf(type) << " in "
                                        << nameOf(bits) << ", " << nRanks << " ranks");
        VirtualRanks ranks(settings, *codec_);
        setGaussianInputs(ranks, seed);
        ranks.runReduceScatter();
        for (uint32_t rank = 0; rank < nRanks; ++rank) {
          const Oracle oracle(ranks, settings, rank);
          const std::vector<float> values = ranks.outputOf(rank);
          ASSERT_EQ(values.size(), shardElems);
          for (size_t i = 0; i < values.size(); ++i)
            ASSERT_NEAR(values[i], oracle.sum[i], oracle.bound[i]) << rank << " " << i;
        }
      }
}

// What rank `from` adds to the sum of rank `to`: the shard that it sent, decoded on its own, or the
// owner's values times the factor.
std::vector<float> partOf(VirtualRanks& ranks, const Collective& settings, uint32_t to,
                          uint32_t from, const host::HostCodec& codec) {
  if (from == to) {
    const std::vector<float> all = ranks.inputOf(to);
    const auto first = all.begin() + static_cast<ptrdiff_t>(to * settings.fixedShard);
    std::vector<float> own(first, first + static_cast<ptrdiff_t>(settings.fixedShard));
    for (float& value : own) value *= settings.inputFactor.value;
    return own;
  }
  SlotState state{};
  state.ordinal = 1;
  uint32_t fault = 0;
  std::vector<float> part(settings.fixedShard);
  codec.decodeShards({.call = {wire::ShardLayout::fixed(settings.fixedShard, 1, settings.codec),
                               ElementType::fp32, 0x1234, 5, &state, &fault},
                      .input = &ranks[to].received[from * ranks.layout().strideBytes()],
                      .output = part.data()});
  EXPECT_EQ(fault, 0u);
  return part;
}

void expectSumOfParts(const Collective& settings, const host::HostCodec& codec) {
  VirtualRanks ranks(settings, codec);
  setGaussianInputs(ranks, 3);
  ranks.runReduceScatter();
  for (uint32_t rank = 0; rank < settings.nRanks; ++rank) {
    std::vector<float> sum(settings.fixedShard, -0.0f);
    for (uint32_t from = 0; from < settings.nRanks; ++from) {
      const std::vector<float> part = partOf(ranks, settings, rank, from, codec);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    for (float& value : sum) value *= settings.factor;
    ASSERT_EQ(ranks[rank].output, toElements(settings.type, sum)) << rank;
  }
}

TEST_P(ReduceScatterTest, ValuesAreTheSumOfTheDecodedPartsInRankOrder) {
  for (const codec::CodecInfo& codec : codec::kCodecs)
    for (ElementType type : kTypes) {
      SCOPED_TRACE(std::string(codec.name) + " " + nameOf(type));
      expectSumOfParts({.fixedShard = 1155,
                        .nRanks = 4,
                        .codec = codec.format,
                        .type = type,
                        .inputFactor = {.value = 0.7f},
                        .factor = 0.25f},
                       *codec_);
    }
}

TEST_P(ReduceScatterTest, InPlaceEqualsOutOfPlace) {
  for (uint64_t shardElems : kShardSizes)
    for (ElementType type : kTypes) {
      Collective settings{.fixedShard = shardElems, .nRanks = 3, .type = type};
      VirtualRanks apart(settings, *codec_);
      settings.inPlace = true;
      VirtualRanks inPlace(settings, *codec_);
      for (uint32_t rank = 0; rank < 3; ++rank)
        for (VirtualRanks* ranks : {&apart, &inPlace})
          ranks->setInput(rank, awkward(shardElems * 3, 10 * rank + 1));
      const std::vector<uint8_t> before = inPlace[1].input;
      apart.runReduceScatter();
      inPlace.runReduceScatter();
      const size_t nBytes = shardElems * elementBytes(type);
      for (uint32_t rank = 0; rank < 3; ++rank)
        ASSERT_EQ(inPlace[rank].output, apart[rank].output) << shardElems << nameOf(type);
      ASSERT_EQ(std::memcmp(inPlace[1].input.data(), before.data(), nBytes), 0);
      ASSERT_EQ(std::memcmp(&inPlace[1].input[2 * nBytes], &before[2 * nBytes], nBytes), 0);
    }
}

// Nothing of it is coded: what comes out is what went in, to the last bit but for NaNs' payloads.
TEST_P(ReduceScatterTest, ASingleRankKeepsItsValues) {
  for (ElementType type : kTypes) {
    VirtualRanks ranks({.fixedShard = 5000, .nRanks = 1, .type = type}, *codec_);
    ranks.setInput(0, awkward(5000, 4));
    std::vector<float> expected = ranks.inputOf(0);
    for (float& value : expected) value = std::isnan(value) ? kNan : value;
    ranks.runReduceScatter();
    EXPECT_EQ(ranks[0].output, toElements(type, expected)) << nameOf(type);
    EXPECT_EQ(ranks[0].state.ordinal, 2u);
  }
}

TEST_P(ReduceScatterTest, EveryCallCountsAndUsesUpTheOwnResidual) {
  VirtualRanks ranks({.fixedShard = 700, .nRanks = 3, .feedback = true}, *codec_);
  for (uint32_t call = 1; call < 6; ++call) {
    setGaussianInputs(ranks, call);
    ranks.runReduceScatter();
    for (uint32_t rank = 0; rank < 3; ++rank) {
      ASSERT_EQ(ranks[rank].state.ordinal, call + 1);
      ASSERT_EQ(ranks[rank].fault, 0u);
      double carried = 0;
      const std::vector<float> residual = ranks.residualOf(rank);
      for (size_t i = 0; i < residual.size(); ++i) {
        ASSERT_TRUE(i / 700 != rank || residual[i] == 0.0f);
        carried += std::abs(residual[i]);
      }
      ASSERT_GT(carried, 0);
    }
  }
}

TEST_P(ReduceScatterTest, NanReachesTheOwnerAloneAndPoisonsItsNextCall) {
  VirtualRanks ranks({.fixedShard = 700, .nRanks = 3}, *codec_);
  setGaussianInputs(ranks, 1);
  std::vector<float> bad = gaussian(2100, 77);
  bad[700 + 300] = kNan;
  ranks.setInput(2, bad);
  ranks.runReduceScatter();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const std::vector<float> values = ranks.outputOf(rank);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(std::isnan(values[i]), rank == 1 && i / 128 == 300 / 128) << rank << " " << i;
    EXPECT_EQ(ranks[rank].state.poisonOrdinal, rank == 1 ? 2u : 0u);
  }
}

TEST_P(ReduceScatterTest, OverflowOfTheTypePoisonsToo) {
  VirtualRanks ranks({.fixedShard = 130, .nRanks = 2, .type = ElementType::fp16}, *codec_);
  for (size_t rank = 0; rank < 2; ++rank) ranks.setInput(rank, std::vector<float>(260, 40000.0f));
  ranks.runReduceScatter();
  EXPECT_TRUE(std::isinf(ranks.outputOf(1)[129]));
  EXPECT_EQ(ranks[1].state.poisonOrdinal, 2u);
}

TEST_P(ReduceScatterTest, ARefusedPeerMakesAllValuesNan) {
  for (ElementType type : kTypes) {
    VirtualRanks ranks({.fixedShard = 700, .nRanks = 3, .type = type}, *codec_);
    setGaussianInputs(ranks, 1);
    ranks.encode();
    ranks.exchange();
    ranks[0].received[2 * ranks.layout().strideBytes() + 8] ^= 4;
    ranks.reduceIntoValues();
    EXPECT_EQ(ranks[0].output, toElements(type, std::vector<float>(700, kNan))) << "canonical";
    EXPECT_EQ(ranks[0].fault, static_cast<uint32_t>(kFaultSlot));
    EXPECT_EQ(ranks[0].state.ordinal, 2u);
    EXPECT_EQ(ranks[0].state.poisonOrdinal, 2u);
    for (uint32_t rank = 1; rank < 3; ++rank) {
      EXPECT_EQ(ranks[rank].fault, 0u);
      for (float value : ranks.outputOf(rank)) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, ReduceScatterTest,
                         testing::Values("baseline", "avx2", "avx512", "reference"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace cinch::test
