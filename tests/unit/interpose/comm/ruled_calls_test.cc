// Rules at work: CINCH_RULES names ruled_calls.csv.
#include <gtest/gtest.h>

#include <string>

#include "common/stats.h"
#include "interpose/comm/rule_source.h"
#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;

const Signature kSingle{CallKind::allReduce, OpClass::sum, ncclFloat32, 1 << 20};
const Signature kBrain{CallKind::allReduce, OpClass::sum, ncclBfloat16, 1 << 20};
const Signature kHalf{CallKind::allReduce, OpClass::sum, ncclFloat16, 1 << 20};
const Signature kWeights{CallKind::allGather, OpClass::none, ncclFloat32, 1 << 20};

class RuledCalls : public testing::Test {
 protected:
  void SetUp() override {
    test::resetFakes();
    ranks_ = test::makeRanks(2);
  }
  CommState& comm() { return *ranks_[0]->comm; }
  CommState::Decision decide(const Signature& signature) {
    return comm().decide(signature, nullptr);
  }
  CommState::Decision decideIn(uint64_t captureId, const Signature& signature) {
    fakeDevice().captures[nullptr] = captureId;
    const auto decision = decide(signature);
    fakeDevice().captures.clear();
    return decision;
  }

  test::TestRanks ranks_;
};

std::string codecOf(const CommState::Decision& decision) {
  return decision.slot == nullptr ? "" : decision.slot->stats->codec;
}

TEST_F(RuledCalls, TheOrdinalChangesTheCodec) {
  EXPECT_EQ(decide(kSingle).reason, Reason::warmup) << "no rule stands against it";
  for (int seen = 1; seen < 30; ++seen) {
    const auto decision = decide(kSingle);
    EXPECT_EQ(decision.reason, Reason::none);
    EXPECT_EQ(codecOf(decision), seen < 10 ? "q8" : "q4") << seen;
    EXPECT_STREQ(decision.call->codec.load(), seen < 10 ? "q8" : "q4");
  }
}

TEST_F(RuledCalls, TheFirstCallsCanPass) {
  for (int seen = 0; seen < 20; ++seen)
    EXPECT_EQ(decide(kBrain).reason, seen < 10 ? Reason::ruled : Reason::none) << seen;
}

TEST_F(RuledCalls, CompressSwitchesAKindOn) {
  decide(kWeights);
  EXPECT_EQ(codecOf(decide(kWeights)), "q8");
}

// Else a call that may be compressed later would be taken for one on a stream.
TEST_F(RuledCalls, CapturesAreSeenWhateverTheOrdinal) {
  for (const Signature& signature : {kSingle, kBrain, kHalf}) {
    decide(signature);
    const auto decision = decideIn(7, signature);
    EXPECT_EQ(decision.reason, Reason::capturing);
    EXPECT_FALSE(decision.counted);
    ASSERT_NE(decision.call, nullptr);
    EXPECT_EQ(decision.call->name, describe(signature));
  }
}

TEST_F(RuledCalls, ACapturedCallIsOneOfAllToCome) {
  for (int seen = 0; seen < 9; ++seen) {
    decide(kHalf);
    if (const auto decision = decide(kSingle); decision.slot != nullptr)
      decision.slot->phase = SlotPhase::active;
  }
  EXPECT_EQ(decideIn(7, kHalf).reason, Reason::capturing) << "its calls will pass";
  EXPECT_EQ(decideIn(7, kSingle).reason, Reason::capturing) << "its codec will be another one";
}

TEST_F(RuledCalls, TheCodecOfACapturedCallIsTheLastOne) {
  for (int seen = 0; seen < 20; ++seen)
    if (const auto decision = decide(kSingle); decision.slot != nullptr)
      decision.slot->phase = SlotPhase::active;
  EXPECT_EQ(codecOf(decideIn(7, kSingle)), "q4");
}

// --- Where the rules come from.

TEST(RuleSource, TextAndFilesAreRead) {
  EXPECT_TRUE(processRules().ok());
  EXPECT_FALSE(processRules().value().empty());
  EXPECT_TRUE(readRules("").value().empty());
  EXPECT_EQ(readRules("q8; pass").value().fingerprint(),
            parseRules("q8; pass").value().fingerprint());
}

TEST(RuleSource, ErrorsNameWhereTheRulesAre) {
  const auto messageOf = [](const char* setting) {
    const auto rules = readRules(setting);
    return rules.ok() ? "" : rules.error().message;
  };
  EXPECT_EQ(messageOf("/no/such/file").find("CINCH_RULES=/no/such/file: there is no such file"),
            0u);
  EXPECT_EQ(messageOf("/").find("CINCH_RULES=/: there is no such file"), 0u) << "a folder";
  EXPECT_EQ(messageOf("fly").find("CINCH_RULES: rule 1, action: 'fly' should be"), 0u);
  EXPECT_EQ(messageOf("rules.csv").find("CINCH_RULES: rule 1, action"), 0u) << "it lacks its /";
}

}  // namespace
}  // namespace cinch
