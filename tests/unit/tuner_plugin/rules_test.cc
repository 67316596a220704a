#include "tuner_plugin/rules.h"

#include <gtest/gtest.h>

#include <random>

namespace cinch::tuner {
namespace {

std::string errorOf(const std::string& text) {
  const auto rules = parseRules(text);
  return rules.ok() ? "" : rules.error().message;
}

std::vector<Rule> rulesOf(const std::string& text) {
  auto rules = parseRules(text);
  EXPECT_TRUE(rules.ok()) << rules.error().message;
  return rules.ok() ? std::move(rules.value()) : std::vector<Rule>();
}

TEST(TunerRules, TakesTheColumnsOfTheExample) {
  const auto rules = rulesOf(
      "# a comment\n\n"
      "allreduce,0,65536,tree,simple,2,1,-1,-1,-1\n"
      "  AllGather , 64K , 4294967295 , PAT , LL128 , -1 , 4 , 32 , 3 # three\r\n"
      "broadcast,1,1,ring,ll,-1,-1,-1\n"
      "reduce,1,1,nvls_tree,ll,-1,-1,-1,-1,1");
  ASSERT_EQ(rules.size(), 4u);
  EXPECT_EQ(rules[0].collective, TunedCollective::allReduce);
  EXPECT_EQ(rules[0].channels, 2);
  EXPECT_EQ(rules[0].line, 3u);
  EXPECT_EQ(rules[1].collective, TunedCollective::allGather);
  EXPECT_EQ(rules[1].minBytes, 65536u);
  EXPECT_EQ(rules[1].maxBytes, 4294967295u);
  EXPECT_EQ(rules[1].algorithm, Algorithm::pat);
  EXPECT_EQ(rules[1].protocol, Protocol::ll128);
  EXPECT_EQ(rules[1].nNodes, 4);
  EXPECT_EQ(rules[1].nRanks, 32);
  EXPECT_EQ(rules[1].nPipeOps, 3);
  EXPECT_EQ(rules[1].registered, kAny);
  EXPECT_EQ(rules[2].nPipeOps, kAny);
  EXPECT_EQ(rules[3].registered, 1);
}

TEST(TunerRules, TakesAHeading) {
  EXPECT_EQ(rulesOf(ruleHeading() + "\nreduce,1,1,ring,ll,-1,-1,-1\n").size(), 1u);
  EXPECT_EQ(errorOf("collective_type,max_bytes\n"),
            "line 1, the heading: 'max_bytes' should be min_bytes");
  EXPECT_TRUE(rulesOf("").empty());
}

TEST(TunerRules, ErrorsNameLineAndColumn) {
  const struct {
    const char* line;
    const char* expected;
  } bad[] = {
      {"gather,1,2,ring,ll,-1,-1,-1", "line 2, collective_type: 'gather' should be broadcast|"},
      {"reduce,x,2,ring,ll,-1,-1,-1", "line 2, min_bytes: 'x' should be a number of bytes"},
      {"reduce,3,2,ring,ll,-1,-1,-1", "line 2, max_bytes: '2' should be a number of bytes, not"},
      {"reduce,1,2,rings,ll,-1,-1,-1", "line 2, algorithm: 'rings' should be tree|ring|"},
      {"reduce,1,2,ring,ll256,-1,-1,-1", "line 2, protocol: 'll256' should be ll|ll128|simple"},
      {"reduce,1,2,ring,ll,0,-1,-1", "line 2, channels: '0' should be -1 or a number from 1 to"},
      {"reduce,1,2,ring,ll,-1,-2,-1", "line 2, nNodes: '-2' should be"},
      {"reduce,1,2,ring,ll,-1,-1,99999999999", "line 2, nRanks: '99999999999' should be"},
      {"reduce,1,2,ring,ll,-1,-1", "line 2, nRanks: '' should be"},
      {"reduce,1,2,ring,ll,-1,-1,-1,x", "line 2, numPipeOps: 'x' should be"},
      {"reduce,1,2,ring,ll,-1,-1,-1,-1,2", "line 2, regBuff: '2' should be -1, 0 or 1"},
      {"reduce,1,2,ring,ll,-1,-1,-1,-1,1,7", "line 2, behind regBuff: '7' should be nothing"},
  };
  for (const auto& [line, expected] : bad) {
    const std::string error = errorOf("reduce,1,1,ring,ll,-1,-1,-1\n" + std::string(line) + "\n");
    EXPECT_TRUE(error.starts_with(expected)) << error;
  }
}

TEST(TunerRules, AreBounded) {
  const std::string line = "reduce,1,1,ring,ll,-1,-1,-1\n";
  std::string text;
  for (size_t i = 0; i < kMaxRules; ++i) text += line;
  EXPECT_EQ(rulesOf(text).size(), kMaxRules);
  EXPECT_EQ(errorOf(text + line), "line 4097: 4096 rules are the most");
}

TEST(TunerRules, HoldForCallsAndShapes) {
  const auto rules = rulesOf(
      "reduce,8,16,ring,ll,-1,2,4,1\n"
      "reduce,8,16,ring,ll,-1,-1,-1,-1,0\n");
  EXPECT_TRUE(suits(rules[0], 4, 2));
  EXPECT_FALSE(suits(rules[0], 4, 1));
  EXPECT_FALSE(suits(rules[0], 8, 2));
  EXPECT_FALSE(suits(rules[0], (uint64_t{1} << 32) + 4, 2));
  EXPECT_FALSE(suits(rules[1], 4, 2)) << "ranks may differ in what they have registered";
  EXPECT_TRUE(holds(rules[0], 8, 1));
  EXPECT_TRUE(holds(rules[0], 16, 1));
  EXPECT_FALSE(holds(rules[0], 17, 1));
  EXPECT_FALSE(holds(rules[0], 7, 1));
  EXPECT_FALSE(holds(rules[0], 8, 2));
}

// What is taken comes back; nothing crashes.
TEST(TunerRules, TakeAnyBytes) {
  std::mt19937 random(1);
  const std::string good =
      "allreduce,0,65536,tree,simple,2,1,-1,-1,-1\nbroadcast,1,1,ring,ll,-1,-1,-1\n# end\n";
  for (int round = 0; round < 20000; ++round) {
    std::string text = good.substr(random() % 60);
    for (int edit = 0; edit < 2; ++edit) text[random() % text.size()] = static_cast<char>(random());
    const auto rules = parseRules(text);
    if (!rules.ok()) continue;
    for (const Rule& rule : rules.value()) {
      const auto again = parseRules(formatRule(rule));
      ASSERT_TRUE(again.ok()) << formatRule(rule);
      EXPECT_EQ(formatRule(again.value().at(0)), formatRule(rule));
    }
  }
}

}  // namespace
}  // namespace cinch::tuner
