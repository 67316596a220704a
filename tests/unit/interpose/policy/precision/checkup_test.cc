#include "interpose/policy/precision/checkup.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "interpose/policy/precision/segments.h"

namespace cinch {
namespace {

constexpr uint32_t kRanks = 4;
constexpr uint64_t kCount = 600 * wire::kTileElems + 17;

const codec::CodecInfo& codecOf(const char* name) {
  return *codec::findCodec(name);
}

// Tallies as an average of `kRanks` ranks would have them: gradients of layers whose scales differ,
// and a compressed result that is off by `excess` times what theory expects.
class Bucket {
 public:
  explicit Bucket(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> scale(0, 4);
    const uint64_t nTiles = wire::ShardLayout::tilesOf(kCount);
    double level = 1;
    for (uint64_t i = 0; i < nTiles; ++i) {
      if (i % 50 == 0) level = std::exp(scale(random));
      powers_.push_back(level);
    }
  }

  // One value of the tile has `power` times all that the bucket has.
  void addOutlier(uint64_t tile, double power) {
    outliers_.push_back({tile, power * std::accumulate(powers_.begin(), powers_.end(), 0.0)});
  }

  // `nmse` is the error of the result over |exact|^2; the own values have `share` of the power that
  // the others' have.
  Examination examined(double nmse, float share = 1) {
    own_.clear();
    result_.clear();
    for (const double power : powers_) {
      const auto p = static_cast<float>(power * 1024);
      // A Gaussian block of 128 has a range of some 5.2 standard deviations.
      own_.push_back({share * p, share * 8 * 27 * p / 1024, 0, 0, 0});
      const float exact = p / kRanks, error = static_cast<float>(nmse) * exact;
      result_.push_back({exact, 8 * 27 * exact / 1024, exact + error, exact, error});
    }
    for (const auto& [tile, power] : outliers_) {
      const auto p = static_cast<float>(power * 1024);
      own_[tile] = {p, p, 0, 0, 0};
      result_[tile] = {p, p, p, p, 0};
    }
    return {own_, result_, 0.01, 1};
  }

 private:
  std::vector<double> powers_;
  std::vector<std::pair<uint64_t, double>> outliers_;
  std::vector<TileTally> own_, result_;
};

Adviser::Facts facts() {
  return {.slot = 99,
          .count = kCount,
          .type = ElementType::fp32,
          .nRanks = kRanks,
          .factor = 1.0f / kRanks,
          .rule = {.gain = 0.1f},
          .roomBytes = roomFor(kCount, kRanks, codec::formatOf("q4"))};
}

Adviser fixedAdviser(const char* codec) {
  return Adviser(facts(), {&codecOf(codec), false, segmentsOf(kCount, {})});
}
Adviser adaptiveAdviser() {
  return Adviser(facts(), {&codecOf("q4"), true, segmentsOf(kCount, {})});
}

TEST(CheckupSchedule, NeverMeansNever) {
  const CheckupSchedule never = scheduleOf(0, 5, true);
  for (uint64_t call = 0; call < 100; ++call) EXPECT_FALSE(never.examines(call));
  EXPECT_FALSE(never.hasOpening);
}

TEST(CheckupSchedule, LeavesCallsBetweenExaminations) {
  for (uint64_t every : {1, 2, 3, 7, 8, 200})
    for (uint64_t identity = 0; identity < 40; ++identity) {
      const CheckupSchedule schedule = scheduleOf(every, identity);
      const uint64_t apart = std::max<uint64_t>(every, 4);
      uint64_t nExamined = 0, last = 0;
      for (uint64_t call = 0; call < 1000; ++call) {
        if (!schedule.examines(call)) continue;
        if (nExamined++ > 0) {
          ASSERT_EQ(call - last, apart);
        }
        last = call;
      }
      EXPECT_GE(nExamined, 900 / apart);
      EXPECT_FALSE(schedule.examines(0)) << "a job's first gradients say little";
    }
}

TEST(CheckupSchedule, SlotsTakeTurns) {
  std::set<uint64_t> firsts;
  for (uint64_t identity = 0; identity < 64; ++identity)
    firsts.insert(scheduleOf(200, identity * 0x9e3779b97f4a7c15).first);
  EXPECT_GE(firsts.size(), 12u);
}

TEST(Advice, ComesBack) {
  const uint64_t nTiles = 20;
  Advice change{Advice::Kind::change,
                {7, 5, 12, {{8, codec::formatOf("h2")}, {12, codec::formatOf("q6")}}}};
  for (const Advice& sent : {Advice{}, Advice{.kind = Advice::Kind::pass}, change}) {
    const auto got = decodeAdvice(encodeAdvice(sent), 5, nTiles);
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got.value().kind, sent.kind);
    EXPECT_EQ(got.value().plan.runs.size(), sent.plan.runs.size());
  }
  EXPECT_FALSE(decodeAdvice(encodeAdvice(change), 6, nTiles).ok()) << "of another slot";
  EXPECT_FALSE(decodeAdvice(encodeAdvice(change), 5, nTiles + 1).ok()) << "of another bucket";
}

TEST(Advice, RefusesEverythingElse) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> bytes(1 + random() % 80);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    const bool isPass = bytes.size() == 1 && bytes[0] == 0xff;
    EXPECT_EQ(decodeAdvice(bytes, 5, 20).ok(), isPass);
  }
}

TEST(Adviser, LeavesACodecAloneThatDoesWhatItShould) {
  for (const char* codec : {"q2", "q4", "q8", "h4", "sign", "fp8"}) {
    Adviser adviser = fixedAdviser(codec);
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const Advice advice = adviser.advise(Bucket(seed).examined(1e-5), 10);
      EXPECT_EQ(advice.kind, Advice::Kind::keep) << codec;
      EXPECT_FALSE(adviser.finding().isBreach);
      EXPECT_NEAR(adviser.finding().cosine, 1, 1e-4);
    }
  }
}

// Of q4 on Gaussian values, in theory: D = (27 / 12) / 15^2 = 0.01 of the own values and of the
// sum. Here the ranks' values have 4 times the sum's power, 3 of 4 are coded and all are divided by
// 4: 0.75 of the sum's error, which is taken for no less than that.
TEST(Adviser, ExpectsWhatTheorySays) {
  Adviser adviser = fixedAdviser("q4");
  adviser.advise(Bucket(1).examined(0.02), 10);
  const double share = 27.0 / 12 / 225, shaping = 2 / 1.9;
  const double theory = 1.5 * shaping * share * (1 + 1);
  EXPECT_NEAR(adviser.finding().budget, theory, theory * 0.02);
  EXPECT_NEAR(adviser.finding().nmse, 0.02, 1e-5);
  EXPECT_NEAR(adviser.finding().powerRatio, 1.02, 1e-5);
}

// Where two hosts of two ranks sum up first, the values of two ranks are coded instead of three.
TEST(Adviser, ExpectsLessWhereHostsSumUpFirst) {
  const auto budgetOf = [](uint32_t nHosts) {
    Adviser::Facts own = facts();
    own.nHosts = nHosts;
    own.nLanes = nHosts ? kRanks / nHosts : 1;
    Adviser adviser(own, {&codecOf("q4"), false, segmentsOf(kCount, {})});
    Bucket bucket(1);
    (void)adviser.advise(bucket.examined(0, 8), 0);
    return adviser.finding().budget;
  };
  // In errors of the sum: of n ranks with 8 times 4 of its power, 1 / 16 by the factor; and its
  // own.
  EXPECT_NEAR(budgetOf(2) / budgetOf(0), (2 * 8 * 4 / 16.0 + 1) / (3 * 8 * 4 / 16.0 + 1), 0.01);
  EXPECT_NEAR(budgetOf(4) / budgetOf(0), 1, 1e-12);
}

TEST(Adviser, RaisesThePrecisionAfterThreeBreachesAndPassesInTheEnd) {
  Adviser adviser = fixedAdviser("q4");
  Bucket bucket(2);
  std::vector<std::string> ladder;
  uint64_t call = 10;
  for (;;) {
    Advice advice;
    for (int breach = 0; breach < 3; ++breach) {
      EXPECT_EQ(advice.kind, Advice::Kind::keep);
      advice = adviser.advise(bucket.examined(0.5), call += 200);
      EXPECT_TRUE(adviser.finding().isBreach);
    }
    if (advice.kind == Advice::Kind::pass) break;
    ASSERT_EQ(advice.kind, Advice::Kind::change);
    EXPECT_EQ(advice.plan.decidedAfter, call + 1);
    ASSERT_EQ(advice.plan.runs.size(), 1u);
    ladder.push_back(codec::findCodec(advice.plan.runs[0].codec.id)->name);
  }
  EXPECT_EQ(ladder, (std::vector<std::string>{"q5", "q6", "q8"}));
}

TEST(Adviser, ForgivesBreachesThatAreFew) {
  Adviser adviser = fixedAdviser("q2");
  Bucket bucket(2);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(adviser.advise(bucket.examined(40), 10).kind, Advice::Kind::keep);
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(adviser.advise(bucket.examined(0.1), 10).kind, Advice::Kind::keep);
}

TEST(Adviser, LearnsNothingFromWhatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Adviser adviser = adaptiveAdviser();
    Bucket bucket(4);
    for (int i = 0; i < 5; ++i) {
      const Examination examination = bucket.examined(0.01);
      std::vector<TileTally> result(examination.result.begin(), examination.result.end());
      result[3] = {bad, bad, bad, bad, bad};
      EXPECT_EQ(adviser.advise({examination.own, result, 1, 1}, 10).kind, Advice::Kind::keep);
      EXPECT_FALSE(adviser.finding().isBreach);
    }
  }
}

TEST(Adviser, TakesABucketOfZeroesAsItIs) {
  Adviser adviser = adaptiveAdviser();
  const std::vector<TileTally> zeroes(wire::ShardLayout::tilesOf(kCount));
  for (int i = 0; i < 5; ++i) {
    adviser.advise({zeroes, zeroes, 0, 0}, 10);
    EXPECT_FALSE(adviser.finding().isBreach);
  }
}

TEST(Adviser, GivesLayersOfLittlePowerFewerBits) {
  Adviser adviser = adaptiveAdviser();
  const Advice advice = adviser.advise(Bucket(5).examined(0.01), 10);
  ASSERT_EQ(advice.kind, Advice::Kind::change);
  const wire::MixedLayout mixed(kCount, kRanks, advice.plan.runs);
  const wire::ShardLayout uniform{kCount, kRanks, codec::formatOf("q4")};
  EXPECT_LT(static_cast<double>(mixed.layout().totalBytes()),
            0.95 * static_cast<double>(uniform.totalBytes()));
  // The same again is no change.
  EXPECT_EQ(adviser.advise(Bucket(5).examined(0.01), 210).kind, Advice::Kind::keep);
}

// XLA reduces a job's loss with its gradients. A codec that was asked for stays what it is.
TEST(Adviser, LeavesALossToACodecThatIsFixed) {
  for (const char* codec : {"q2", "q4", "h4", "q8"}) {
    Adviser adviser = fixedAdviser(codec);
    Bucket bucket(5);
    bucket.addOutlier(205, 1e4);
    EXPECT_EQ(adviser.advise(bucket.examined(1e-5), 10).kind, Advice::Kind::keep) << codec;
  }
}

// What the loss costs is no budget for the gradients.
TEST(Adviser, GivesLayersWhatTheyHadWithoutALossBesideThem) {
  Bucket alone(5), beside(5);
  beside.addOutlier(205, 1e4);
  Adviser adviser = adaptiveAdviser(), other = adaptiveAdviser();
  const auto plain = adviser.advise(alone.examined(0.01), 10).plan.runs;
  const auto mixed = other.advise(beside.examined(0.01), 10).plan.runs;
  const auto codecsOf = [](const std::vector<wire::Segment>& runs) {
    std::vector<uint8_t> codecs;
    for (const wire::Segment& run : runs) codecs.insert(codecs.end(), run.nTiles, run.codec.id);
    return codecs;
  };
  const auto before = codecsOf(plain), after = codecsOf(mixed);
  ASSERT_EQ(before.size(), after.size());
  EXPECT_EQ(after[205], codec::formatOf("fp32").id) << "as exact as its buffer";
  uint64_t nOthers = 0;
  for (size_t i = 0; i < before.size(); ++i) nOthers += before[i] != after[i];
  EXPECT_LE(nOthers, 70u) << "the segment of the loss, and one that has what it leaves";
}

TEST(Adviser, LeavesOutliersAloneWhereBucketsShareTheSlot) {
  Adviser adviser = adaptiveAdviser();
  Bucket bucket(5);
  bucket.addOutlier(205, 1e4);
  Examination examination = bucket.examined(1e-5);
  examination.isOneBucket = false;
  EXPECT_EQ(adviser.advise(examination, 10).kind, Advice::Kind::keep);
}

TEST(Adviser, NeverTakesMoreRoomThanThereIs) {
  Adviser::Facts tight = facts();
  tight.roomBytes = wire::ShardLayout{kCount, kRanks, codec::formatOf("q2")}.totalBytes();
  Adviser adviser(tight, {&codecOf("q4"), true, segmentsOf(kCount, {})});
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Advice advice = adviser.advise(Bucket(seed).examined(0.01), 10);
    if (advice.kind != Advice::Kind::change) continue;
    EXPECT_LE(wire::MixedLayout(kCount, kRanks, advice.plan.runs).layout().totalBytes(),
              tight.roomBytes);
  }
}

TEST(Adviser, OpensWithMoreBitsThanTheStandardAndKeepsWhatMustBe) {
  std::vector<PrecisionSegment> segments = {{300, false}, {2, true}, {298, false}, {1, true}};
  for (const auto& [standard, opening] :
       {std::pair{"h2", "h4"}, {"h3", "h4"}, {"q4", "q4"}, {"q6", "q6"}}) {
    Adviser adviser(facts(), {&codecOf(standard), true, segments});
    const Advice advice = adviser.opening();
    ASSERT_EQ(advice.kind, Advice::Kind::change);
    EXPECT_EQ(advice.plan.decidedAfter, 0u);
    const std::vector<wire::Segment> expected = {{300, codecOf(opening).format},
                                                 {2, codec::formatOf("fp32")},
                                                 {298, codecOf(opening).format},
                                                 {1, codec::formatOf("fp32")}};
    ASSERT_EQ(advice.plan.runs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(advice.plan.runs[i].nTiles, expected[i].nTiles);
      EXPECT_EQ(advice.plan.runs[i].codec, expected[i].codec);
    }
    if (codecOf(standard).format.bits > 3) continue;
    // The first advice goes on from there, to what the standard says.
    const Advice next = adviser.advise(Bucket(5).examined(0.01), 10);
    ASSERT_EQ(next.kind, Advice::Kind::change);
    EXPECT_NE(next.plan.id, advice.plan.id);
  }
}

// The opening of a bucket of these segments, as codec and number of tiles of each run.
std::vector<std::pair<std::string, uint64_t>> openingOf(Adviser::Facts of,
                                                        std::vector<PrecisionSegment> segments) {
  of.count = 0;
  for (const PrecisionSegment& segment : segments) of.count += segment.nTiles * wire::kTileElems;
  of.roomBytes = roomFor(of.count, of.nRanks, codec::formatOf("h3"));
  Adviser adviser(of, {&codecOf("h3"), true, std::move(segments)});
  std::vector<std::pair<std::string, uint64_t>> runs;
  for (const wire::Segment& run : adviser.opening().plan.runs)
    runs.push_back({codec::findCodec(run.codec.id)->name, run.nTiles});
  return runs;
}
using Runs = std::vector<std::pair<std::string, uint64_t>>;

TEST(Adviser, KeepsHalfOfASmallBucketRaw) {
  for (const uint64_t n : {20, 50, 120})
    EXPECT_EQ(openingOf(facts(), {{n, true}, {n, false}}), (Runs{{"fp32", n}, {"h4", n}}));
}

TEST(Adviser, KeepsLessExactlyWhatTakesTooMuchRoom) {
  EXPECT_EQ(openingOf(facts(), {{300, true}, {300, false}}), (Runs{{"bf16", 300}, {"h4", 300}}));
  EXPECT_EQ(openingOf(facts(), {{600, true}}), (Runs{{"h4", 600}}));
}

// Every shard takes the bytes of the largest.
TEST(Adviser, KeepsNothingRawThatCostsMoreThanItSaves) {
  Adviser::Facts many = facts();
  many.nRanks = 16;
  EXPECT_EQ(openingOf(many, {{100, false}, {1, true}, {99, false}}),
            (Runs{{"h4", 100}, {"fp32", 1}, {"h4", 99}}));
  EXPECT_EQ(openingOf(many, {{8, false}, {1, true}, {7, false}}),
            (Runs{{"h4", 8}, {"bf16", 1}, {"h4", 7}}));
  many.nRanks = 64;
  EXPECT_EQ(openingOf(many, {{8, false}, {1, true}, {7, false}}), (Runs{{"h4", 16}}));
}

// A sum of hosts is divided later, and may be too large for fp16 until then.
TEST(Adviser, KeepsRawWhatTheBufferHas) {
  for (const auto& [type, nHosts, expected] :
       {std::tuple{ElementType::fp32, 0u, "fp32"}, std::tuple{ElementType::bf16, 2u, "bf16"},
        std::tuple{ElementType::fp16, 0u, "fp16"}, std::tuple{ElementType::fp16, 2u, "fp32"}}) {
    Adviser::Facts of = facts();
    of.type = type;
    of.nHosts = nHosts;
    of.nLanes = nHosts ? kRanks / nHosts : 1;
    const Runs runs = openingOf(of, {{300, false}, {1, true}, {299, false}});
    ASSERT_EQ(runs.size(), 3u) << expected;
    EXPECT_EQ(runs[1].first, expected);
  }
}

TEST(Adviser, OpensAgainForASlotThatBeginsAnew) {
  Adviser adviser(facts(), {&codecOf("h3"), true, {{599, false}, {1, true}, {1, false}}});
  const Advice first = adviser.opening(), second = adviser.opening();
  ASSERT_EQ(second.kind, Advice::Kind::change);
  EXPECT_EQ(encodeAdvice(first), encodeAdvice(second));
}

TEST(Adviser, HasNoOpeningWhereTheCodecIsTheUsers) {
  EXPECT_EQ(fixedAdviser("h3").opening().kind, Advice::Kind::keep);
  Adviser standard(facts(), {&codecOf("q4"), true, segmentsOf(kCount, {})});
  EXPECT_EQ(standard.opening().kind, Advice::Kind::keep) << "it begins so in any case";
}

TEST(Adviser, RaisesAdaptivePrecisionAsAWhole) {
  Adviser adviser = adaptiveAdviser();
  Bucket bucket(6);
  std::vector<Advice> said;
  for (int i = 0; i < 3; ++i) said.push_back(adviser.advise(bucket.examined(5), 10));
  ASSERT_EQ(said[0].kind, Advice::Kind::change);
  ASSERT_EQ(said[2].kind, Advice::Kind::change);
  EXPECT_STREQ(adviser.standard().name, "q5");
  const auto bytesOf = [](const Advice& advice) {
    return wire::MixedLayout(kCount, kRanks, advice.plan.runs).layout().totalBytes();
  };
  EXPECT_GT(bytesOf(said[2]), bytesOf(said[0]));
}

}  // namespace
}  // namespace cinch
