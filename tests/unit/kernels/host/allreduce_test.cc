// The three launches put together: what an allreduce of virtual ranks promises.
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

std::vector<double> exactSum(const VirtualRanks& ranks, size_t nRanks, uint64_t count) {
  std::vector<double> sum(count, 0.0);
  for (size_t rank = 0; rank < nRanks; ++rank) {
    const std::vector<float> values = ranks.inputOf(rank);
    for (size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

void setGaussianInputs(VirtualRanks& ranks, uint64_t count, uint32_t seed, float scale = 1.0f) {
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    ranks.setInput(rank, gaussian(count, seed * 100 + static_cast<uint32_t>(rank), scale));
}

// Error of one quantisation of Gaussian values, in blocks of 128.
struct KnownError {
  wire::CodecFormat codec;
  double nmse;
};
constexpr KnownError kKnownErrors[] = {{codec::formatOf("q2"), 0.181},
                                       {codec::formatOf("q4"), 9.9e-3},
                                       {codec::formatOf("q8"), 3.5e-5}};

TEST(Quality, OneQuantisationOfGaussianValues) {
  constexpr uint64_t kCount = 1 << 20;
  for (const KnownError& known : kKnownErrors) {
    // A single rank quantises once, in stage 2.
    const Collective settings{.count = kCount, .nRanks = 1, .codec = known.codec};
    VirtualRanks ranks(settings, host::fastestHostCodec());
    setGaussianInputs(ranks, kCount, 1);
    ranks.run();
    const double tolerance = known.codec.bits == 8 ? 0.03 : 0.02;
    EXPECT_NEAR(nmse(ranks.outputOf(0), exactSum(ranks, 1, kCount)), known.nmse,
                known.nmse * tolerance)
        << nameOf(known.codec);
  }
}

TEST(Quality, MeasuredErrorIsTheTrueError) {
  constexpr uint64_t kCount = 100001;
  const Collective settings{.count = kCount, .nRanks = 1, .rule = {.measure = true}};
  for (const host::HostCodec& codec : host::hostCodecs()) {
    VirtualRanks ranks(settings, codec);
    setGaussianInputs(ranks, kCount, 2);
    ranks.run();
    const SlotState& state = ranks[0].state;
    EXPECT_NEAR(state.error[1] / state.power[1],
                nmse(ranks.outputOf(0), exactSum(ranks, 1, kCount)), 1e-9)
        << codec.name;
    EXPECT_EQ(state.power[0], 0) << "the only rank's own shard is not coded in stage 1";
  }
}

// All ranks end alike, and the error is no other than that of one piece.
void expectRunsAgree(wire::CodecFormat codec, uint32_t nChunks) {
  constexpr uint64_t kCount = 41 * wire::kTileElems + 77;
  Collective settings{.count = kCount, .nRanks = 4, .codec = codec};
  VirtualRanks whole(settings, host::fastestHostCodec());
  settings.nChunks = nChunks;
  VirtualRanks chunked(settings, host::fastestHostCodec());
  for (VirtualRanks* ranks : {&whole, &chunked}) {
    setGaussianInputs(*ranks, kCount, 3);
    ranks->run();
  }
  const std::vector<double> exact = exactSum(whole, 4, kCount);
  const double one = nmse(whole.outputOf(0), exact);
  EXPECT_NEAR(nmse(chunked.outputOf(0), exact), one, 0.1 * one) << nameOf(codec);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(chunked[rank].output, chunked[0].output) << nameOf(codec);
    EXPECT_EQ(chunked[rank].fault, 0u);
  }
}

struct Case {
  uint32_t nRanks;
  wire::CodecFormat codec;
  ElementType type;
  bool average;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.nRanks << " ranks, " << nameOf(c.codec) << ", " << nameOf(c.type)
       << (c.average ? ", average" : ", sum");
}

Collective settingsOf(const Case& c, uint64_t count) {
  return {.count = count,
          .nRanks = c.nRanks,
          .codec = c.codec,
          .type = c.type,
          .factor = c.average ? 1.0f / static_cast<float>(c.nRanks) : 1.0f};
}

void expectAgreement(VirtualRanks& ranks) {
  for (size_t rank = 1; rank < ranks.size(); ++rank)
    ASSERT_EQ(ranks[rank].output, ranks[0].output) << rank;
  for (size_t rank = 0; rank < ranks.size(); ++rank) ASSERT_EQ(ranks[rank].fault, 0u);
}

class AllReduceTest : public testing::TestWithParam<Case> {};

std::vector<Case> knownCases() {
  std::vector<Case> cases;
  for (uint32_t nRanks = 1; nRanks <= 9; ++nRanks)
    for (const KnownError& known : kKnownErrors)
      for (ElementType type : kTypes) cases.push_back({nRanks, known.codec, type, nRanks % 2 == 0});
  return cases;
}

double knownErrorOf(wire::CodecFormat codec) {
  return std::find_if(std::begin(kKnownErrors), std::end(kKnownErrors),
                      [&](const KnownError& known) { return known.codec == codec; })
      ->nmse;
}

TEST_P(AllReduceTest, RanksAgreeAndErrorIsTwiceOneQuantisation) {
  constexpr uint64_t kCount = 50007;
  VirtualRanks ranks(settingsOf(GetParam(), kCount), host::fastestHostCodec());
  setGaussianInputs(ranks, kCount, 3);
  ranks.run();
  expectAgreement(ranks);

  std::vector<double> exact = exactSum(ranks, ranks.size(), kCount);
  if (GetParam().average)
    for (double& value : exact) value /= static_cast<double>(ranks.size());
  // Stage 1 does not code the owner's part: (P - 1) / P of one quantisation.
  const double one = knownErrorOf(GetParam().codec);
  const double nRanks = static_cast<double>(ranks.size());
  double expected = one * (1 + (nRanks - 1) / nRanks * (1 + one));
  if (GetParam().type == ElementType::bf16) expected += 0x1p-18 / 3 * 2;
  EXPECT_NEAR(nmse(ranks.outputOf(0), exact), expected, expected * 0.05);
}

INSTANTIATE_TEST_SUITE_P(Known, AllReduceTest, testing::ValuesIn(knownCases()));

// Whatever it makes of the values, every codec makes the same of them everywhere.
TEST(AllReduce, RanksAgreeWithEveryCodec) {
  constexpr uint64_t kCount = 9007;
  uint32_t seed = 0;
  for (const codec::CodecInfo& codec : codec::kCodecs)
    for (ElementType type : kTypes) {
      SCOPED_TRACE(std::string(codec.name) + " " + nameOf(type));
      const uint32_t nRanks = 2 + ++seed % 4;
      VirtualRanks ranks(settingsOf({nRanks, codec.format, type, seed % 2 == 0}, kCount),
                         host::fastestHostCodec());
      for (uint32_t rank = 0; rank < nRanks; ++rank)
        ranks.setInput(rank, awkward(kCount, seed * 10 + rank));
      ranks.run();
      expectAgreement(ranks);
    }
}

class FeedbackTest : public testing::TestWithParam<float> {};

// Nothing is lost: what went in and has not come out is in the residuals.
TEST_P(FeedbackTest, InputMinusOutputIsTheResidual) {
  constexpr uint64_t kCount = 5003;
  constexpr int kSteps = 50;
  for (const KnownError& known : kKnownErrors) {
    const Collective settings{.count = kCount,
                              .nRanks = 3,
                              .codec = known.codec,
                              .feedback = true,
                              .rule = {.gain = GetParam()}};
    VirtualRanks ranks(settings, host::fastestHostCodec());
    std::vector<double> balance(kCount, 0.0);
    for (uint32_t step = 0; step < kSteps; ++step) {
      setGaussianInputs(ranks, kCount, step);
      ranks.run();
      const std::vector<double> exact = exactSum(ranks, ranks.size(), kCount);
      const std::vector<float> output = ranks.outputOf(0);
      for (size_t i = 0; i < kCount; ++i) balance[i] += exact[i] - output[i];
    }
    std::vector<double> carried(kCount, 0.0);
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      const uint64_t first = ranks.layout().firstElem(rank);
      const std::vector<float> own = ranks.residualOf(rank), owner = ranks.ownerResidualOf(rank);
      for (size_t i = 0; i < owner.size(); ++i) {
        ASSERT_EQ(own[first + i], 0.0f) << "the owner's part is exact";
        carried[first + i] += owner[i];
      }
      for (size_t i = 0; i < kCount; ++i) carried[i] += own[i];
    }
    double residualPower = 0;
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(balance[i], carried[i], 2e-4) << nameOf(known.codec) << " " << i;
      residualPower += carried[i] * carried[i];
    }
    EXPECT_GT(residualPower, 0) << "there was something to carry over";
  }
}

// A constant input, however small next to its block, comes out in full in the long run.
TEST_P(FeedbackTest, PersistentErrorVanishes) {
  constexpr uint64_t kCount = 1024;
  constexpr int kSteps = 400;
  const Collective settings{.count = kCount,
                            .nRanks = 2,
                            .codec = codec::formatOf("q2"),
                            .feedback = true,
                            .rule = {.gain = GetParam()}};
  VirtualRanks ranks(settings, host::fastestHostCodec());
  setGaussianInputs(ranks, kCount, 8);
  const std::vector<double> exact = exactSum(ranks, 2, kCount);
  std::vector<double> mean(kCount, 0.0);
  for (int step = 0; step < kSteps; ++step) {
    ranks.run();
    const std::vector<float> output = ranks.outputOf(0);
    for (size_t i = 0; i < kCount; ++i) mean[i] += output[i] / kSteps;
  }
  EXPECT_LT(nmse({mean.begin(), mean.end()}, exact), 0.01);
}

INSTANTIATE_TEST_SUITE_P(Gains, FeedbackTest, testing::Values(0.1f, 1.0f));

class NanTest : public testing::TestWithParam<uint32_t> {};

// Of whichever chunk.
TEST_P(NanTest, ReachesAllRanksAndResidualsStartAgain) {
  constexpr uint64_t kCount = 8000;
  for (const host::HostCodec& codec : host::hostCodecs()) {
    const Collective settings{
        .count = kCount, .nRanks = 3, .feedback = true, .nChunks = GetParam()};
    VirtualRanks ranks(settings, codec);
    setGaussianInputs(ranks, kCount, 1);
    ranks.run();
    std::vector<float> bad = gaussian(kCount, 77);
    bad[1500] = kNan;
    ranks.setInput(1, bad);
    ranks.run();
    for (size_t rank = 0; rank < 3; ++rank) {
      const std::vector<float> output = ranks.outputOf(rank);
      for (size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(std::isnan(output[i]), i / 128 == 1500 / 128) << codec.name << " " << i;
      ASSERT_EQ(ranks[rank].state.poisonOrdinal, ranks[rank].state.ordinal);
      for (float residual : ranks.residualOf(rank)) ASSERT_TRUE(std::isfinite(residual));
    }

    // The next call is that of ranks without a past.
    setGaussianInputs(ranks, kCount, 5);
    ranks.run();
    VirtualRanks fresh(settings, codec);
    setGaussianInputs(fresh, kCount, 5);
    fresh.run();
    EXPECT_EQ(ranks[0].output, fresh[0].output) << codec.name;
    EXPECT_EQ(ranks[2].residual, fresh[2].residual) << codec.name;
    EXPECT_NE(ranks[0].state.poisonOrdinal, ranks[0].state.ordinal);
  }
}

INSTANTIATE_TEST_SUITE_P(Chunks, NanTest, testing::Values(1, 2));

struct ChunkedCase {
  wire::CodecFormat codec;
  ResidualType residual;
};

class ChunkTest : public testing::TestWithParam<ChunkedCase> {};

// Where the shards are the same, a call leaves the same in chunks as in one piece.
TEST_P(ChunkTest, LeaveWhatOnePieceLeaves) {
  constexpr uint64_t kCount = 3 * 4 * 2 * wire::kTileElems - 100;
  for (const host::HostCodec& codec : host::hostCodecs()) {
    Collective settings{.count = kCount,
                        .nRanks = 3,
                        .codec = GetParam().codec,
                        .feedback = true,
                        .rule = {.gain = 0.1f, .residualType = GetParam().residual}};
    VirtualRanks whole(settings, codec);
    settings.nChunks = 4;
    VirtualRanks chunked(settings, codec);
    for (uint32_t step = 0; step < 4; ++step) {
      setGaussianInputs(whole, kCount, step);
      setGaussianInputs(chunked, kCount, step);
      whole.run();
      chunked.run();
      for (size_t rank = 0; rank < 3; ++rank) {
        ASSERT_EQ(chunked[rank].output, whole[rank].output) << codec.name << " " << step;
        ASSERT_EQ(chunked[rank].residual, whole[rank].residual) << codec.name << " " << step;
        ASSERT_EQ(chunked[rank].ownerResidual, whole[rank].ownerResidual) << codec.name;
        ASSERT_EQ(chunked[rank].state.ordinal, step + 2);
        ASSERT_EQ(chunked[rank].fault, 0u);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, ChunkTest,
                         testing::Values(ChunkedCase{codec::formatOf("q4"), ResidualType::fp32},
                                         ChunkedCase{codec::formatOf("q2"), ResidualType::bf16},
                                         ChunkedCase{codec::formatOf("sign"), ResidualType::int8}));

TEST(Chunks, OfEveryCodecMakeOneResult) {
  for (const codec::CodecInfo& each : codec::kCodecs)
    for (uint32_t nChunks : {2, 5}) expectRunsAgree(each.format, nChunks);
}

TEST(Specials, OverflowOfTheOutputTypePoisonsToo) {
  const Collective settings{.count = 256, .nRanks = 2, .type = ElementType::fp16, .feedback = true};
  for (const host::HostCodec& codec : host::hostCodecs()) {
    VirtualRanks ranks(settings, codec);
    for (size_t rank = 0; rank < 2; ++rank) ranks.setInput(rank, std::vector<float>(256, 40000.0f));
    ranks.run();
    EXPECT_TRUE(std::isinf(ranks.outputOf(0)[0]));
    EXPECT_EQ(ranks[0].state.poisonOrdinal, 2u);
  }
}

TEST(Specials, OrdinalsWrap) {
  const Collective settings{.count = 1000, .nRanks = 2, .feedback = true};
  for (const host::HostCodec& codec : host::hostCodecs()) {
    VirtualRanks ranks(settings, codec);
    for (size_t rank = 0; rank < 2; ++rank) ranks[rank].state.ordinal = 0xfffffffe;
    for (uint32_t step = 0; step < 4; ++step) {
      setGaussianInputs(ranks, 1000, step);
      ranks.run();
      ASSERT_EQ(ranks[0].state.ordinal, 0xffffffffu + step);
      ASSERT_EQ(ranks[0].fault | ranks[1].fault, 0u);
      ASSERT_EQ(ranks[0].output, ranks[1].output);
    }
  }
}

// A rank in another call than its peers must be noticed by all that hear of it.
class DivergenceTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    codec_ = host::findHostCodec(GetParam());
    if (!codec_) GTEST_SKIP() << "this CPU cannot run the " << GetParam() << " codec";
  }
  const host::HostCodec* codec_ = nullptr;
};

TEST_P(DivergenceTest, RefusedPeerMarksTheShardAndReportsWhy) {
  constexpr uint64_t kCount = 3000;
  VirtualRanks ranks({.count = kCount, .nRanks = 3, .feedback = true}, *codec_);
  setGaussianInputs(ranks, kCount, 1);
  ranks[2].state.ordinal = 9;  // one rank is elsewhere
  ranks.run();
  EXPECT_EQ(ranks[0].fault, static_cast<uint32_t>(kFaultOrdinal));
  EXPECT_EQ(ranks[1].fault, static_cast<uint32_t>(kFaultOrdinal));
  EXPECT_EQ(ranks[2].fault, static_cast<uint32_t>(kFaultOrdinal));
  // Shards 0 and 1 heard rank 2, shard 2 heard the others: nothing is left of any sum.
  for (size_t rank = 0; rank < 3; ++rank) {
    for (float value : ranks.outputOf(rank)) ASSERT_TRUE(std::isnan(value));
    for (float residual : ranks.ownerResidualOf(rank)) ASSERT_EQ(residual, 0.0f);
  }
  EXPECT_EQ(ranks[0].state.poisonOrdinal, 2u);
}

TEST_P(DivergenceTest, EveryCorruptHeaderByteIsReported) {
  constexpr uint64_t kCount = 3000;
  const uint32_t faults[16] = {1, 1, 2, 4, 8, 8, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32};
  for (uint32_t byte = 0; byte < 16; ++byte) {
    VirtualRanks ranks({.count = kCount, .nRanks = 2}, *codec_);
    setGaussianInputs(ranks, kCount, 1);
    ranks.encode();
    ranks.exchange();
    ranks[0].received[ranks.layout().strideBytes() + byte] ^= 0x40;
    ranks.reduce();
    EXPECT_EQ(ranks[0].fault, faults[byte]);
    EXPECT_EQ(ranks[1].fault, 0u);
    ranks.gatherAndDecode();
    for (size_t rank = 0; rank < 2; ++rank) {
      const std::vector<float> output = ranks.outputOf(rank);
      for (size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(std::isnan(output[i]), i < ranks.layout().shardElems(0)) << i;
    }
  }
}

TEST_P(DivergenceTest, RefusedShardDecodesToNan) {
  constexpr uint64_t kCount = 3000;
  for (ElementType type : kTypes) {
    VirtualRanks ranks({.count = kCount, .nRanks = 2, .type = type}, *codec_);
    setGaussianInputs(ranks, kCount, 1);
    ranks.encode();
    ranks.exchange();
    ranks.reduce();
    ranks[1].reduced[4] ^= 1;
    ranks.gatherAndDecode();
    const uint64_t firstElem = ranks.layout().firstElem(1);
    for (size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(ranks[rank].fault, static_cast<uint32_t>(kFaultPlan));
      EXPECT_EQ(ranks[rank].state.poisonOrdinal, 2u);
      const std::vector<float> output = ranks.outputOf(rank);
      for (size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(std::isnan(output[i]), i >= firstElem) << nameOf(type) << " " << i;
    }
    const auto nan = toElements(type, {kNan});
    EXPECT_EQ(std::memcmp(&ranks[0].output[firstElem * nan.size()], nan.data(), nan.size()), 0)
        << "the canonical NaN";
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, DivergenceTest,
                         testing::Values("baseline", "avx2", "avx512", "reference"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace cinch::test
