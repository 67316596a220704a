#include "interpose/policy/rules.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <tuple>

namespace cinch {
namespace {

const Signature kRuledGradients{CallKind::allReduce, OpClass::sum, ncclFloat32, 1 << 20};

Rules rulesOf(std::string_view text) {
  auto rules = parseRules(text);
  EXPECT_TRUE(rules.ok()) << text << ": " << (rules.ok() ? "" : rules.error().message);
  return rules.ok() ? rules.value() : Rules();
}

Rules fileOf(std::string_view text) {
  auto rules = parseRuleFile(text);
  EXPECT_TRUE(rules.ok()) << text << ": " << (rules.ok() ? "" : rules.error().message);
  return rules.ok() ? rules.value() : Rules();
}

// What the first rule that holds for a call says; "" where there is none.
std::string answer(const Rules& rules, const Signature& signature, int nRanks = 4,
                   uint64_t seenBefore = 10) {
  const Rule* rule = rules.find(signature, nRanks, seenBefore);
  return rule == nullptr ? "" : describe(*rule);
}

bool holds(std::string_view condition, const Signature& signature, int nRanks = 4,
           uint64_t seenBefore = 10) {
  return !answer(rulesOf("pass " + std::string(condition)), signature, nRanks, seenBefore).empty();
}

TEST(Rules, NoneSayNothing) {
  for (const char* text : {"", " ", ";", " ; ;\n"}) {
    EXPECT_TRUE(rulesOf(text).empty());
    EXPECT_EQ(answer(rulesOf(text), kRuledGradients), "");
    EXPECT_EQ(rulesOf(text).fingerprint(), "none");
  }
}

TEST(Rules, EveryActionIsRead) {
  const auto first = [](std::string_view text) {
    return *rulesOf(text).find(kRuledGradients, 4, 0);
  };
  EXPECT_TRUE(first("pass").passes);
  EXPECT_TRUE(first("compress").isWanted);
  EXPECT_TRUE(first("gradient").isGradient);
  EXPECT_STREQ(first("h4").codec->name, "h4");
  const Rule all = first("q2 gradient compress ranks=4");
  EXPECT_TRUE(all.isWanted && all.isGradient && !all.passes);
  EXPECT_STREQ(all.codec->name, "q2");
  const Rule pass = first("pass");
  EXPECT_FALSE(pass.isWanted || pass.isGradient || pass.codec != nullptr);
}

// For one more release: as their successors, with a notice, in both forms.
TEST(Rules, OldNamesOfCodecsAreTakenForTheirSuccessors) {
  const Rules rules = rulesOf("compress q4-64 ranks=4; c3");
  EXPECT_EQ(answer(rules, kRuledGradients), "compress q4 ranks=4..4");
  EXPECT_EQ(rules.fingerprint(), rulesOf("compress q4 ranks=4; h3").fingerprint())
      << "what ranks compare";
  ASSERT_EQ(rules.notices().size(), 2u);
  EXPECT_NE(rules.notices()[0].find("q4-64"), std::string::npos);
  EXPECT_NE(rules.notices()[1].find("h3"), std::string::npos);
  auto file = parseRuleFile("action,ranks\nnvfp4,4\n");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file.value().notices().size(), 1u);
  EXPECT_TRUE(rulesOf("q4; pass").notices().empty());
}

TEST(Rules, TheFirstThatHoldsWins) {
  const Rules rules = rulesOf("pass dtype=bf16; q8 operation=AllReduce; pass; q2");
  Signature other = kRuledGradients;
  EXPECT_EQ(answer(rules, other), "q8 operation=AllReduce");
  other.dataType = ncclBfloat16;
  EXPECT_EQ(answer(rules, other), "pass dtype=bf16");
  other = {CallKind::broadcast, OpClass::none, ncclInt32, 3};
  EXPECT_EQ(answer(rules, other), "pass");
}

TEST(Rules, OperationTypeAndOpAreCompared) {
  const struct {
    const char* condition;
    Signature held;
  } rows[] = {
      {"operation=AllReduce", {CallKind::allReduce, OpClass::other, ncclInt8, 1}},
      {"operation=ReduceScatter", {CallKind::reduceScatter, OpClass::sum, ncclInt8, 1}},
      {"operation=AllGather", {CallKind::allGather, OpClass::none, ncclInt8, 1}},
      {"dtype=fp32", {CallKind::reduce, OpClass::sum, ncclFloat32, 1}},
      {"dtype=fp16", {CallKind::reduce, OpClass::sum, ncclFloat16, 1}},
      {"dtype=bf16", {CallKind::reduce, OpClass::sum, ncclBfloat16, 1}},
      {"op=Sum", {CallKind::scatter, OpClass::sum, ncclInt8, 1}},
      {"op=Avg", {CallKind::scatter, OpClass::avg, ncclInt8, 1}},
      {"op=PreMulSum", {CallKind::scatter, OpClass::preMulSum, ncclInt8, 1}},
  };
  const auto columnOf = [](std::string_view condition) {
    return condition.substr(0, condition.find('='));
  };
  for (const auto& row : rows) {
    EXPECT_TRUE(holds(row.condition, row.held)) << row.condition;
    for (const auto& other : rows) {
      if (columnOf(row.condition) != columnOf(other.condition)) continue;
      EXPECT_EQ(holds(row.condition, other.held), &row == &other) << row.condition;
    }
  }
  EXPECT_TRUE(holds("operation=allreduce dtype=FP32 op=sum", kRuledGradients)) << "in any case";
}

TEST(Rules, BytesAreThoseOfTheWholeBuffer) {
  Signature call = kRuledGradients;  // 4 MB
  EXPECT_TRUE(holds("min_bytes=4M", call));
  EXPECT_FALSE(holds("min_bytes=4194305", call));
  EXPECT_TRUE(holds("max_bytes=4096k", call));
  EXPECT_FALSE(holds("max_bytes=4194303", call));
  EXPECT_TRUE(holds("max_bytes=4M min_bytes=4M", call));
  call.kind = CallKind::reduceScatter;  // names one shard of 4
  EXPECT_TRUE(holds("min_bytes=16M max_bytes=16M", call));
  call.count = ~uint64_t{0} / 2;
  EXPECT_TRUE(holds("min_bytes=1T", call)) << "no count wraps around";
}

TEST(Rules, RangesHoldTheirEnds) {
  for (const auto& [text, from, to] :
       {std::tuple("3", 3, 3), {"2..8", 2, 8}, {"5..", 5, 12}, {"..4", 0, 4}, {"7..7", 7, 7}})
    for (int n = 0; n <= 12; ++n) {
      const bool isIn = from <= n && n <= to;
      EXPECT_EQ(holds("ranks=" + std::string(text), kRuledGradients, n), isIn) << text << " " << n;
      EXPECT_EQ(holds("ordinal=" + std::string(text), kRuledGradients, 4, static_cast<uint64_t>(n)),
                isIn);
    }
}

TEST(Rules, MayDependOnTheOrdinal) {
  const Rules rules = rulesOf("pass ranks=2; q8 ordinal=..99 dtype=fp32; q4; q2 ordinal=5");
  for (uint64_t seen = 0; seen < 200; ++seen)
    EXPECT_EQ(answer(rules, kRuledGradients, 4, seen).substr(0, 2), seen < 100 ? "q8" : "q4");
}

TEST(Rules, AFileSaysTheSame) {
  const Rules file = fileOf(
      "# our rules\n"
      "ranks , action,operation,dtype,op,min_bytes,max_bytes,ordinal\r\n"
      "\n"
      "2..8,q4 gradient,AllReduce,fp32,Sum,1M,1G,3..  # all of it\n"
      ",pass,,,,,,\n"
      ",compress\n");
  const Rules text = rulesOf(
      "gradient q4 operation=AllReduce dtype=fp32 op=Sum min_bytes=1024K max_bytes=1G ranks=2..8 "
      "ordinal=3.. ; pass; compress;");
  EXPECT_EQ(file.fingerprint(), text.fingerprint());
  EXPECT_EQ(file.fingerprint().size(), 16u);
  EXPECT_EQ(answer(file, kRuledGradients, 4, 3), answer(text, kRuledGradients, 4, 3));
  EXPECT_TRUE(fileOf("action\n").empty());
}

TEST(Rules, FingerprintsTellRulesApart) {
  std::set<std::string> seen = {"none"};
  for (const char* text :
       {"pass", "compress", "gradient", "q8", "q4", "pass; q8", "q8; pass", "pass ranks=2",
        "pass ordinal=2", "pass ranks=2..", "pass min_bytes=2", "pass max_bytes=2", "pass op=Sum",
        "pass dtype=fp32", "pass operation=AllReduce", "compress q8", "gradient q8"})
    EXPECT_TRUE(seen.insert(rulesOf(text).fingerprint()).second) << text;
}

void expectError(const Result<Rules>& rules, const char* where, const char* allowed) {
  ASSERT_FALSE(rules.ok()) << where;
  EXPECT_NE(rules.error().message.find(where), std::string::npos) << rules.error().message;
  EXPECT_NE(rules.error().message.find(allowed), std::string::npos) << rules.error().message;
}

TEST(Rules, ErrorsNameTheRuleAndWhatIsAllowed) {
  expectError(parseRules("pass; pas"), "rule 2, action: 'pas'", "name of a codec");
  expectError(parseRules("pass q8"), "rule 1, action", "pass, or");
  expectError(parseRules("q8 q4"), "rule 1, action", "pass, or");
  expectError(parseRules("auto"), "rule 1, action", "codec");
  expectError(parseRules("dtype=fp32"), "rule 1, action: ''", "pass, or");
  expectError(parseRules("pass;;pass dtype=int8"), "rule 3, dtype: 'int8'", "fp32, fp16 or bf16");
  expectError(parseRules("pass operation=Broadcast"), "operation: 'Broadcast'", "AllReduce");
  expectError(parseRules("pass op=Max"), "op: 'Max'", "PreMulSum");
  expectError(parseRules("pass min_bytes=1X"), "min_bytes: '1X'", "K, M, G");
  expectError(parseRules("pass min_bytes=2K max_bytes=1K"), "max_bytes: '1K'", "min_bytes");
  expectError(parseRules("pass max_bytes=1K min_bytes=2K"), "min_bytes: '2K'", "max_bytes");
  for (const char* range :
       {"", "..", "8..2", "-1", "1..x", "1...2", "1.5", "+1", "0x4", "99999999999999999999"})
    expectError(parseRules("pass ranks=" + std::string(range)), "ranks: '", "a range: 2..8");
  expectError(parseRules("pass size=3"), "rule 1: 'size'", "min_bytes");
  expectError(parseRules("pass action=q8"), "rule 1: 'action'", "operation");
  expectError(parseRules("pass ranks=2 q8"), "rule 1: 'q8'", "operation");
}

TEST(Rules, ErrorsNameLineAndColumn) {
  expectError(parseRuleFile(""), "no heading", "action, operation");
  expectError(parseRuleFile("# nothing\n\n"), "no heading", "action, operation");
  expectError(parseRuleFile("operation,dtype\n"), "line 1", "no column is called action");
  expectError(parseRuleFile("\naction,size\n"), "line 2: 'size'", "min_bytes");
  expectError(parseRuleFile("action,dtype,dtype\n"), "line 1: 'dtype'", "once");
  expectError(parseRuleFile("pass,AllReduce\n"), "line 1: 'pass'", "a column");
  expectError(parseRuleFile("action,dtype\npass,fp32\n# x\nq9,\n"), "line 4, action: 'q9'",
              "codec");
  expectError(parseRuleFile("action,dtype\npass,fp32\n,fp32\n"), "line 3, action: ''", "pass");
  expectError(parseRuleFile("dtype,action\nfp64,pass\n"), "line 2, dtype: 'fp64'", "bf16");
  expectError(parseRuleFile("action,ranks\npass,2,3\n"), "line 2: '3'", "fewer columns");
}

TEST(Rules, ManyRulesAreRefused) {
  std::string text = "action\n";
  for (size_t i = 0; i < Rules::kMaxRules; ++i) text += "pass\n";
  EXPECT_TRUE(parseRuleFile(text).ok());
  expectError(parseRuleFile(text + "pass\n"), "257 rules", "256 are the most");
}

// --- Random ones, with a fixed seed.

class RandomText {
 public:
  explicit RandomText(uint32_t seed) : random_(seed) {}
  uint64_t below(uint64_t n) { return random_() % n; }
  template <size_t N>
  const char* one(const char* const (&words)[N]) {
    return words[below(N)];
  }

  std::string range() {
    const uint64_t from = below(20), to = from + below(20);
    const std::string both = std::to_string(from) + ".." + std::to_string(to);
    return below(3) == 0 ? std::to_string(from) : both;
  }
  std::string rule() {
    static constexpr const char* kActions[] = {"pass", "compress", "gradient",
                                               "q8",   "sign",     "gradient compress h4"};
    static constexpr const char* kConditions[] = {
        " operation=AllReduce", " operation=AllGather", " dtype=fp32",  " dtype=bf16", " op=Avg",
        " op=PreMulSum",        " min_bytes=100K",      " max_bytes=4G"};
    std::string text = one(kActions);
    for (uint64_t n = below(4); n > 0; --n) text += one(kConditions);
    if (below(2) == 0) text += " ranks=" + range();
    if (below(2) == 0) text += " ordinal=" + range();
    return text;
  }
  Signature signature() {
    return {static_cast<CallKind>(below(4)), static_cast<OpClass>(below(5)),
            static_cast<ncclDataType_t>(below(12)), below(1 << 20)};
  }

 private:
  std::mt19937_64 random_;
};

TEST(RulesFuzz, WhatIsWrittenBackIsReadAsTheSame) {
  RandomText random(1);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = random.rule();
    const Rules rules = rulesOf(text);
    const Signature call = random.signature();
    const int nRanks = static_cast<int>(random.below(40));
    const uint64_t ordinal = random.below(40);
    const Rule* rule = rules.find(call, nRanks, ordinal);
    if (rule == nullptr) continue;
    const Rules again = rulesOf(describe(*rule));
    ASSERT_EQ(again.fingerprint(), rules.fingerprint()) << text;
    ASSERT_NE(again.find(call, nRanks, ordinal), nullptr);
    ASSERT_EQ(*again.find(call, nRanks, ordinal), *rule) << text;
  }
}

// Every text is read or refused with a place, and what is read can be asked.
TEST(RulesFuzz, BrokenTextsNeverDoHarm) {
  static constexpr char kBytes[] = "pass q8=.;,#\n dtyperanks2.09KMG\0\xff";
  RandomText random(2);
  size_t nRead = 0, nRefused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = random.below(2) == 0 ? random.rule() + ";" + random.rule()
                                            : "action,dtype,ranks\npass,fp32,2\nq8,,3..4\n";
    for (uint64_t n = random.below(4); n > 0; --n)
      text[random.below(text.size())] = kBytes[random.below(sizeof kBytes - 1)];
    for (const auto& rules : {parseRules(text), parseRuleFile(text)}) {
      ++(rules.ok() ? nRead : nRefused);
      if (rules.ok())
        rules.value().find(random.signature(), 4, 1);
      else
        EXPECT_NE(rules.error().message, "");
    }
  }
  EXPECT_GT(nRead, 1000u);
  EXPECT_GT(nRefused, 1000u);
}

}  // namespace
}  // namespace cinch
