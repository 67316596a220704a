#include "interpose/policy/precision/precision_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "common/byte_order.h"
#include "common/hash.h"
#include "kernels/codec/registry.h"

namespace cinch {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kHeadBytes = 32, kHashBytes = 8;

uint64_t tilesOf(const PrecisionPlan& plan) {
  uint64_t n = 0;
  for (const wire::Segment& run : plan.runs) n += run.nTiles;
  return n;
}

// Knows the slot of the plan, and no other.
TilesOfSlot slotOf(const PrecisionPlan& plan) {
  return [slot = plan.slot, nTiles = tilesOf(plan)](uint64_t asked) {
    return asked == slot ? nTiles : 0;
  };
}

PrecisionPlan randomPlan(std::mt19937_64& random, size_t nRuns) {
  PrecisionPlan plan{static_cast<uint32_t>(random()), random(), random(), {}};
  for (size_t i = 0; i < nRuns; ++i)
    plan.runs.push_back(
        {1 + random() % 100000, codec::kCodecs[random() % codec::kCodecs.size()].format});
  return plan;
}

PrecisionPlan smallPlan() {
  return {7, 0x1122334455667788, 42, {{3, codec::formatOf("q4")}, {5, codec::formatOf("h2")}}};
}

void expectEqual(const PrecisionPlan& a, const PrecisionPlan& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.slot, b.slot);
  EXPECT_EQ(a.decidedAfter, b.decidedAfter);
  ASSERT_EQ(a.runs.size(), b.runs.size());
  for (size_t i = 0; i < a.runs.size(); ++i) {
    EXPECT_EQ(a.runs[i].nTiles, b.runs[i].nTiles);
    EXPECT_EQ(a.runs[i].codec, b.runs[i].codec);
    EXPECT_EQ(a.runs[i].codec.tileBytes(), b.runs[i].codec.tileBytes());
  }
}

// The bytes with a hash that matches, as somebody would send them who means ill.
Bytes signedAnew(Bytes bytes) {
  const size_t hashed = bytes.size() - kHashBytes;
  storeLittle(hashBytes(bytes.data(), hashed), &bytes[hashed]);
  return bytes;
}

bool isAccepted(const Bytes& bytes, const PrecisionPlan& expected = smallPlan()) {
  return decodePlan(bytes, slotOf(expected)).ok();
}

TEST(CutRuns, AreThoseOfTheTilesAskedFor) {
  const auto q4 = codec::formatOf("q4"), h2 = codec::formatOf("h2");
  const std::vector<wire::Segment> runs = {{3, q4}, {5, h2}, {2, q4}};
  const auto textOf = [&](uint64_t first, uint64_t n) {
    std::string text;
    for (const wire::Segment& run : cutRuns(runs, first, n))
      text += std::to_string(run.nTiles) + (run.codec == q4 ? "q4 " : "h2 ");
    return text;
  };
  EXPECT_EQ(textOf(0, 10), "3q4 5h2 2q4 ");
  EXPECT_EQ(textOf(0, 3), "3q4 ");
  EXPECT_EQ(textOf(3, 4), "4h2 ");
  EXPECT_EQ(textOf(2, 7), "1q4 5h2 1q4 ");
  EXPECT_EQ(textOf(9, 1), "1q4 ");
  EXPECT_EQ(textOf(4, 0), "");
}

TEST(PrecisionPlan, ComesBack) {
  std::mt19937_64 random(1);
  for (size_t nRuns : {1u, 2u, 3u, 100u, 1000u, kMaxSegments}) {
    const PrecisionPlan plan = randomPlan(random, nRuns);
    const Bytes bytes = encodePlan(plan);
    EXPECT_EQ(bytes.size(), kHeadBytes + 8 * nRuns + kHashBytes);
    const auto decoded = decodePlan(bytes, slotOf(plan));
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    expectEqual(decoded.value(), plan);
    EXPECT_EQ(encodePlan(decoded.value()), bytes);
  }
}

TEST(PrecisionPlan, EveryCodecComesBack) {
  PrecisionPlan plan = smallPlan();
  plan.runs.clear();
  for (const codec::CodecInfo& codec : codec::kCodecs) plan.runs.push_back({1, codec.format});
  const auto decoded = decodePlan(encodePlan(plan), slotOf(plan));
  ASSERT_TRUE(decoded.ok());
  expectEqual(decoded.value(), plan);
}

// Ranks of one job may run on machines of either byte order, and of other releases.
TEST(PrecisionPlan, TheBytesAreThoseOfVersionOne) {
  const Bytes expected = {'C',  'P',  'P',  'L',  1,    0,    0,    0,    7,  0, 0, 0, 2, 0, 0, 0,
                          0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 42, 0, 0, 0, 0, 0, 0, 0,
                          4,    3,    0,    0,    0,    0,    0,    0,    34, 5, 0, 0, 0, 0, 0, 0};
  Bytes bytes = encodePlan(smallPlan());
  bytes.resize(bytes.size() - kHashBytes);
  EXPECT_EQ(bytes, expected);
}

TEST(PrecisionPlan, EveryChangedByteIsNoticed) {
  const Bytes bytes = encodePlan(smallPlan());
  ASSERT_TRUE(isAccepted(bytes));
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int value = 1; value < 256; ++value) {
      Bytes changed = bytes;
      changed[i] = static_cast<uint8_t>(changed[i] ^ value);
      EXPECT_FALSE(isAccepted(changed)) << i << " " << value;
    }
}

TEST(PrecisionPlan, EveryOtherLengthIsRefused) {
  const Bytes bytes = encodePlan(smallPlan());
  for (size_t n = 0; n < bytes.size(); ++n) {
    // Memory of its own, so that a sanitizer sees what lies beyond.
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_FALSE(isAccepted(cut)) << n;
    EXPECT_FALSE(n >= kHashBytes && isAccepted(signedAnew(cut))) << n;
  }
  for (size_t more = 1; more < 20; ++more) {
    Bytes longer = bytes;
    longer.resize(bytes.size() + more);
    EXPECT_FALSE(isAccepted(longer)) << more;
    EXPECT_FALSE(isAccepted(signedAnew(longer))) << more;
  }
}

Bytes withField(size_t offset, auto value) {
  Bytes bytes = encodePlan(smallPlan());
  storeLittle(value, &bytes[offset]);
  return signedAnew(bytes);
}

TEST(PrecisionPlan, FieldsThatCannotBeAreRefused) {
  EXPECT_TRUE(isAccepted(signedAnew(encodePlan(smallPlan()))));
  for (uint32_t magic : {0u, 0x4C505044u}) EXPECT_FALSE(isAccepted(withField(0, magic)));
  for (uint32_t version : {0u, 2u, 0xFFFFFFFFu}) EXPECT_FALSE(isAccepted(withField(4, version)));
  for (uint32_t n : {0u, 1u, 3u, kMaxSegments + 1, 0x20000001u, 0xFFFFFFFFu})
    EXPECT_FALSE(isAccepted(withField(12, n))) << n;
  EXPECT_FALSE(isAccepted(withField(16, uint64_t{1})));  // a slot that nobody knows
}

TEST(PrecisionPlan, UnknownCodecsAreRefused) {
  int nKnown = 0;
  for (unsigned id = 0; id < 256; ++id) {
    const bool isKnown = codec::findCodec(static_cast<uint8_t>(id)) != nullptr;
    EXPECT_EQ(isAccepted(withField(kHeadBytes, uint64_t{3} << 8 | id)), isKnown) << id;
    nKnown += isKnown;
  }
  EXPECT_EQ(nKnown, static_cast<int>(codec::kCodecs.size()));
}

TEST(PrecisionPlan, OtherTilesThanTheBucketsAreRefused) {
  const uint64_t q4 = codec::formatOf("q4").id;
  for (uint64_t nTiles : {uint64_t{0}, uint64_t{2}, uint64_t{4}, uint64_t{1} << 55})
    EXPECT_FALSE(isAccepted(withField(kHeadBytes, nTiles << 8 | q4))) << nTiles;
  PrecisionPlan larger = smallPlan();
  larger.runs[1].nTiles += 1;
  EXPECT_FALSE(isAccepted(encodePlan(smallPlan()), larger));
}

// Tiles that only add up to the bucket's because the sum overflows.
TEST(PrecisionPlan, SumsDoNotOverflow) {
  PrecisionPlan plan = smallPlan();
  plan.runs.assign(256, {uint64_t{1} << 55, codec::formatOf("q4")});
  plan.runs.push_back({8, codec::formatOf("q4")});
  EXPECT_FALSE(isAccepted(encodePlan(plan)));
}

TEST(PrecisionPlan, ArbitraryBytesAreRefused) {
  std::mt19937_64 random(2);
  const Bytes start = encodePlan(smallPlan());
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes(random() % 100 + kHashBytes);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    std::copy_n(start.begin(), std::min<size_t>(random() % 17, bytes.size()), bytes.begin());
    EXPECT_FALSE(isAccepted(signedAnew(bytes)));
  }
}

TEST(PrecisionPlan, RunsJoinNeighboursOfOneCodec) {
  const std::vector<PrecisionSegment> segments = {{1, false}, {2, false}, {3, false}, {4, true}};
  const std::vector<wire::CodecFormat> candidates = {codec::formatOf("q4"), codec::formatOf("h2"),
                                                     codec::formatOf("bf16")};
  const PrecisionProblem problem{segments, candidates, 0, 2, {}};
  PrecisionChoice choice;
  choice.candidates = {1, 1, 0, 2};
  const auto runs = runsOf(problem, choice);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].nTiles, 3u);
  EXPECT_EQ(runs[0].codec, candidates[1]);
  EXPECT_EQ(runs[1].nTiles, 3u);
  EXPECT_EQ(runs[1].codec, candidates[0]);
  EXPECT_EQ(runs[2].nTiles, 4u);
  EXPECT_EQ(runs[2].codec, candidates[2]);
}

}  // namespace
}  // namespace cinch
