#include "tools/cinch/tune/choice.h"

#include <gtest/gtest.h>

#include <random>

#include "tools/cinch/tune/report.h"

namespace cinch::tune {
namespace {

const Combination kTree{Algorithm::tree, Protocol::ll, 0};
const Combination kRing{Algorithm::ring, Protocol::simple, 8};

// A sweep of one collective, round by round.
struct Sweep {
  std::vector<Pair> pairs;
  std::vector<PairResult> results;

  // Times by size, of NCCL's own choice and of a combination; the latter may be refused.
  void add(const Combination& combination, std::vector<Timing> own,
           std::optional<std::vector<Timing>> candidate, const char* collective = "all_reduce") {
    pairs.push_back({collective, combination, 0});
    PairResult result;
    result.own = Measurement{"2.28.9", false, 8, 2, std::move(own)};
    if (candidate) result.candidate = Measurement{"2.28.9", false, 8, 2, std::move(*candidate)};
    results.push_back(std::move(result));
  }
  std::vector<Verdict> verdicts() const { return judge(pairs, results); }
};

TEST(Choice, TakesWhatIsFasterEveryTime) {
  Sweep sweep;
  for (const double time : {100.0, 101.0, 99.0}) {
    sweep.add(kTree, {{1024, time}, {4096, time}}, {{{1024, time * 0.8}, {4096, time * 1.2}}});
    sweep.add(kRing, {{1024, time}, {4096, time}}, {{{1024, time * 0.9}, {4096, time}}});
  }
  const auto verdicts = sweep.verdicts();
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].choice, kTree);
  EXPECT_DOUBLE_EQ(verdicts[0].own, 100);
  EXPECT_DOUBLE_EQ(verdicts[0].chosen, 80);
  EXPECT_FALSE(verdicts[1].choice);
}

TEST(Choice, NcclsOwnStaysWithinTheNoise) {
  Sweep lucky, noisy, small, once;
  for (const double factor : {0.5, 0.5, 0.99})
    lucky.add(kTree, {{1024, 100}}, {{{1024, 100 * factor}}});
  EXPECT_FALSE(lucky.verdicts()[0].choice) << "not every time";
  for (const double own : {100.0, 140.0, 60.0, 100.0})
    noisy.add(kTree, {{1024, own}}, {{{1024, own * 0.8}}});
  EXPECT_FALSE(noisy.verdicts()[0].choice) << "its own times spread by more";
  for (int round = 0; round < 3; ++round) small.add(kTree, {{1024, 100}}, {{{1024, 98}}});
  EXPECT_FALSE(small.verdicts()[0].choice) << "not worth it";
  once.add(kTree, {{1024, 100}}, {{{1024, 50}}});
  EXPECT_FALSE(once.verdicts()[0].choice) << "once is no proof";
}

// Forty combinations that are all alike, on a machine whose times spread by a fifth.
TEST(Choice, ChanceChoosesNothing) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> spread(0, 0.2);
  int chosen = 0;
  for (int size = 0; size < 1000; ++size) {
    Sweep sweep;
    for (int round = 0; round < 3; ++round)
      for (int combination = 1; combination <= 40; ++combination)
        sweep.add({Algorithm::ring, Protocol::ll, combination}, {{1024, 100 * spread(random)}},
                  {{{1024, 100 * spread(random)}}});
    chosen += sweep.verdicts()[0].choice ? 1 : 0;
  }
  EXPECT_LE(chosen, 10);
}

TEST(Choice, RefusalsAndMissingPairsCountForNothing) {
  Sweep sweep;
  for (int round = 0; round < 3; ++round) sweep.add(kTree, {{1024, 100}}, {{{1024, 50}}});
  sweep.add(kRing, {{1024, 100}}, std::nullopt);
  sweep.pairs.push_back({"all_reduce", kRing, 1});
  sweep.results.push_back({});                      // left out, since it was refused before
  sweep.pairs.push_back({"all_reduce", kRing, 2});  // not yet there
  const auto verdicts = sweep.verdicts();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].choice, kTree);
  EXPECT_TRUE(judge({}, {}).empty());
}

TEST(Choice, WhatWasRefusedOnceIsNotChosen) {
  Sweep sweep;
  for (int round = 0; round < 2; ++round) {
    sweep.add(kTree, {{1024, 100}}, {{{1024, 50}}});
    sweep.add(kRing, {{1024, 100}}, {{{1024, 80}}});
  }
  EXPECT_EQ(sweep.verdicts()[0].choice, kTree);
  sweep.add(kTree, {{1024, 100}}, std::nullopt);  // it hung
  EXPECT_EQ(sweep.verdicts()[0].choice, kRing);
  EXPECT_TRUE(wasRefused(sweep.pairs, sweep.results, {"all_reduce", kTree, 9}));
  EXPECT_FALSE(wasRefused(sweep.pairs, sweep.results, {"all_gather", kTree, 9}));
  EXPECT_FALSE(wasRefused(sweep.pairs, sweep.results, {"all_reduce", kRing, 9}));
}

Verdict verdict(TunedCollective collective, uint64_t nBytes, std::optional<Combination> choice) {
  return {collective, nBytes, 100, 0.01, choice, choice ? 80.0 : 0.0};
}

TEST(Choice, NeighboursAreOneRule) {
  const auto allReduce = TunedCollective::allReduce, allGather = TunedCollective::allGather;
  const std::vector<Verdict> verdicts = {
      verdict(allGather, 1 << 10, kRing), verdict(allReduce, 1 << 10, kTree),
      verdict(allReduce, 1 << 12, kTree), verdict(allReduce, 1 << 14, std::nullopt),
      verdict(allReduce, 1 << 16, kRing), verdict(allReduce, 1 << 18, kTree)};
  std::string lines;
  for (const tuner::Rule& rule : rulesOf(verdicts, 8, 2)) lines += tuner::formatRule(rule) + "\n";
  EXPECT_EQ(lines,
            "allgather,1024,1024,ring,simple,8,2,8,-1,-1\n"
            "allreduce,1024,8192,tree,ll,-1,2,8,-1,-1\n"
            "allreduce,32769,131072,ring,simple,8,2,8,-1,-1\n"
            "allreduce,131073,262144,tree,ll,-1,2,8,-1,-1\n");
}

TEST(Choice, TheFileKeepsOtherShapes) {
  const auto before = tuner::parseRules(
      "allreduce,0,1,ring,ll,-1,2,8\n"    // measured anew
      "allreduce,0,1,ring,ll,-1,1,8\n"    // other nodes
      "allgather,0,1,ring,ll,-1,2,8\n");  // another collective
  const std::vector<Verdict> verdicts = {verdict(TunedCollective::allReduce, 1024, kTree)};
  const auto rules = rulesOf(verdicts, 8, 2);
  const std::string text =
      ruleFile(before.value(), rules, verdicts, {"2.28.9", false, 8, 2, {{1024, 1}}});
  const auto again = tuner::parseRules(text);
  ASSERT_TRUE(again.ok()) << again.error().message;
  ASSERT_EQ(again.value().size(), 3u) << text;
  EXPECT_EQ(again.value()[0].nNodes, 1);
  EXPECT_EQ(again.value()[1].collective, TunedCollective::allGather);
  EXPECT_EQ(again.value()[2].algorithm, Algorithm::tree);
  EXPECT_NE(text.find("8 ranks on 2 nodes"), std::string::npos);
}

TEST(Choice, IsShownAndDrawn) {
  const std::vector<Verdict> verdicts = {verdict(TunedCollective::allReduce, 1024, kRing),
                                         verdict(TunedCollective::allGather, 2048, std::nullopt)};
  const std::string table = verdictTable(verdicts);
  EXPECT_NE(table.find("ring simple x8"), std::string::npos) << table;
  EXPECT_NE(table.find("NCCL's own"), std::string::npos) << table;
  const std::string script = plotScript(verdicts, "it's", "a.svg");
  EXPECT_NE(script.find("$allreduce << END\n1024 100 80\nEND\n"), std::string::npos) << script;
  EXPECT_NE(script.find("$allgather << END\n2048 100 100\nEND\n"), std::string::npos) << script;
  EXPECT_NE(script.find("'it''s'"), std::string::npos);
}

}  // namespace
}  // namespace cinch::tune
