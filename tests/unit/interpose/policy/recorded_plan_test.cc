#include "interpose/policy/recorded_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace cinch {
namespace {

const PlannedComm kFour{4, 0xabc, 0xdef};
const PlannedSlotKey kFirst{"process3.comm0", 0xfeedbeef12345678};
const PlannedSlotKey kSecond{"comm1", 7};
const std::string kComm = "process3.comm0";
const PlannedDecision kEarly{0, 0xfeedbeef12345678, {0, 1, 0x7f, 0xff, 0x10}};
const PlannedDecision kSame{0, 3, {}}, kLate{812, 3, {9}};

std::string sample() {
  return planHeader() + commLine(kComm, kFour) + slotLine(kFirst, "AllReduce fp32 Sum x 100000") +
         decisionLine(kComm, kEarly) + decisionLine(kComm, kSame) + decisionLine(kComm, kLate) +
         decisionLine("comm1", kEarly);
}

std::string errorOf(const std::string& text) {
  const auto parsed = parseRecordedPlan(text);
  return parsed.ok() ? "none" : parsed.error().message;
}

TEST(RecordedPlan, LinesAreReadable) {
  EXPECT_EQ(decisionLine(kComm, kEarly), "decision process3.comm0 0 feedbeef12345678 00017fff10\n");
  EXPECT_EQ(decisionLine("comm1", kSame), "decision comm1 0 0000000000000003 -\n");
  EXPECT_EQ(slotLine(kSecond, "AllReduce x 9"), "slot comm1 0000000000000007 AllReduce x 9\n");
  EXPECT_EQ(commLine("comm1", kFour), "comm comm1 4 0000000000000abc 0000000000000def\n");
}

TEST(RecordedPlan, WhatWasWrittenComesBack) {
  const auto parsed = parseRecordedPlan(sample());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const RecordedPlan& plan = parsed.value();
  EXPECT_EQ(plan.decisionsAt(kComm, 0), (std::vector<PlannedDecision>{kSame, kEarly}));
  EXPECT_EQ(plan.decisionsAt(kComm, 812), std::vector<PlannedDecision>{kLate});
  EXPECT_EQ(plan.decisionsAt("comm1", 0), std::vector<PlannedDecision>{kEarly});
  EXPECT_TRUE(plan.fits(kComm, kFour).ok());
  EXPECT_TRUE(plan.knows(kFirst));
}

TEST(RecordedPlan, WhatIsNotThereIsNothing) {
  const RecordedPlan plan = parseRecordedPlan(sample()).value();
  EXPECT_TRUE(plan.decisionsAt(kComm, 811).empty());
  EXPECT_TRUE(plan.decisionsAt("comm1", 812).empty());
  EXPECT_TRUE(plan.decisionsAt("comm2", 0).empty());
  EXPECT_FALSE(plan.knows(kSecond));
}

TEST(RecordedPlan, WhatWouldHaveOtherResultsDoesNotFit) {
  const RecordedPlan plan = parseRecordedPlan(sample()).value();
  const auto refusal = [&](const std::string& communicator, const PlannedComm& now) {
    const auto fits = plan.fits(communicator, now);
    return fits.ok() ? "none" : fits.error().message;
  };
  EXPECT_EQ(refusal("process3.comm0", kFour), "none");
  EXPECT_EQ(refusal("comm1", kFour), "comm1 was not compressed in the run that was recorded");
  EXPECT_EQ(refusal("process3.comm0", {3, kFour.settings, kFour.placement}),
            "process3.comm0 was recorded with 4 ranks and has 3");
  EXPECT_EQ(refusal("process3.comm0", {4, 1, kFour.placement}),
            "process3.comm0 was recorded with other settings, or by another version of Cinch");
  EXPECT_EQ(refusal("process3.comm0", {4, kFour.settings, 1}),
            "process3.comm0 was recorded with its ranks on other hosts");
}

TEST(RecordedPlan, FingerprintsTellWordsApartAndNothingElse) {
  const auto fingerprint = [](const std::string& text) {
    return parseRecordedPlan(text).value().fingerprint();
  };
  const std::string plain = fingerprint(sample());
  EXPECT_EQ(plain.size(), 16u);
  EXPECT_EQ(fingerprint(planHeader() + decisionLine("comm1", kEarly) +
                        slotLine(kFirst, "other words") + decisionLine(kComm, kLate) + "# words\n" +
                        planHeader() + decisionLine(kComm, kSame) + commLine(kComm, kFour) +
                        decisionLine(kComm, kEarly)),
            plain);
  EXPECT_NE(fingerprint(sample() + commLine("comm1", kFour)), plain);
  EXPECT_NE(fingerprint(sample() + slotLine({"comm1", 8}, "")), plain);
  EXPECT_NE(fingerprint(sample() + decisionLine(kComm, {2, 1, {}})), plain);
  EXPECT_NE(fingerprint(planHeader()), plain);
  EXPECT_EQ(fingerprint(planHeader()).size(), 16u) << "to replay nothing is to measure nothing";
}

// The run was killed while it wrote.
TEST(RecordedPlan, CutAnywhereItHoldsAllWholeLines) {
  const std::string text = sample();
  for (size_t n = planHeader().size(); n <= text.size(); ++n) {
    const auto parsed = parseRecordedPlan(text.substr(0, n));
    ASSERT_TRUE(parsed.ok()) << n << ": " << parsed.error().message;
    const size_t whole = text.rfind('\n', n - 1) + 1;
    EXPECT_EQ(parsed.value().fingerprint(),
              parseRecordedPlan(text.substr(0, whole)).value().fingerprint());
  }
  for (size_t n = 0; n < planHeader().size(); ++n)
    EXPECT_EQ(errorOf(text.substr(0, n)), "line 1 is not 'cinch-plan 2'");
}

TEST(RecordedPlan, ErrorsNameTheLine) {
  const std::string head = planHeader() + "# words\n";
  EXPECT_EQ(errorOf("cinch-plan 1\n"), "line 1 is not 'cinch-plan 2'");
  EXPECT_EQ(errorOf(head + "pod a 7 0 1\n"),
            "line 3: 'pod' is not a kind of line: comm, slot, decision");
  EXPECT_EQ(errorOf(head + "\n"), "line 3: '' is not a kind of line: comm, slot, decision");
  EXPECT_EQ(errorOf(head + "comm a 1 7 8\n"), "line 3: '1' is not a number of ranks");
  EXPECT_EQ(errorOf(head + "comm a 2x 7 8\n"), "line 3: '2x' is not a number of ranks");
  EXPECT_EQ(errorOf(head + "comm a 2 x 8\n"), "line 3: 'x' is not a number for settings");
  EXPECT_EQ(errorOf(head + "comm a 2 7\n"), "line 3: '' is not a number for a placement");
  EXPECT_EQ(errorOf(head + "comm a 2 7 8 9\n"), "line 3: '8 9' is not a number for a placement");
  EXPECT_EQ(errorOf(head + "slot a x words\n"), "line 3: 'x' is not a slot");
  EXPECT_EQ(errorOf(head + "decision a -1 3 00\n"), "line 3: '-1' is not the number of a call");
  EXPECT_EQ(errorOf(head + "decision a 7 x 00\n"), "line 3: 'x' is not a topic");
  for (const char* bytes : {"", "1", "0g", "-1"})
    EXPECT_EQ(errorOf(head + "decision a 7 0 " + bytes + "\n"),
              std::string("line 3: '") + bytes + "' is not a decision");
}

TEST(RecordedPlan, TwoRunsInOneFileAreRefused) {
  EXPECT_EQ(errorOf(sample() + decisionLine(kComm, kLate)),
            "line 8: a decision of call 812 is there twice: two runs have written to the file");
  EXPECT_EQ(errorOf(sample() + commLine("process3.comm0", kFour)),
            "line 8: process3.comm0 is there twice: two runs have written to the file");
}

// Under the address sanitizer this shows that nothing is read out of bounds.
TEST(RecordedPlan, DamagedFilesNeverDoHarm) {
  std::mt19937 random(31);
  size_t accepted = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = sample();
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      text[random() % text.size()] = static_cast<char>(random() % 2 == 0 ? random() : ' ');
    (parseRecordedPlan(text).ok() ? accepted : refused)++;
  }
  EXPECT_GT(accepted, 500u);
  EXPECT_GT(refused, 5000u);
}

TEST(RecordedPlan, SettingsSayWhatToDo) {
  using Use = PlanSetting::Use;
  EXPECT_EQ(parsePlanSetting("").value().use, Use::none);
  EXPECT_EQ(parsePlanSetting("record:/a/b").value().use, Use::record);
  EXPECT_EQ(parsePlanSetting("replay:a:b").value().use, Use::replay);
  EXPECT_EQ(parsePlanSetting("replay:a:b").value().path, "a:b");
  for (const char* wrong : {"a", "record", "record:", "Replay:a", ":a"})
    EXPECT_FALSE(parsePlanSetting(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace cinch
