#include "interpose/comm/passthrough_notice.h"

#include <gtest/gtest.h>

namespace cinch {
namespace {

constexpr Signature kBucket{CallKind::allReduce, OpClass::sum, ncclFloat32, 1000};

class PassthroughNoticeTest : public testing::Test {
 protected:
  // What is logged in so many steps, of `timesPerStep` calls each.
  std::string pass(uint32_t nSteps, uint32_t timesPerStep = 1, uint32_t index = 1) {
    std::string logged;
    for (uint32_t i = 0; i < nSteps * timesPerStep; ++i)
      logged += notice_.passed(kBucket, index, timesPerStep, Reason::ambiguous);
    return logged;
  }

  PassthroughNotice notice_;
};

TEST_F(PassthroughNoticeTest, SaysOnceWhyAndWhatHelps) {
  EXPECT_EQ(pass(PassthroughNotice::kSteps - 1), "");
  const std::string logged = pass(1);
  for (const std::string& part :
       {std::string("nothing has been compressed"), describe(kBucket), std::string("4000 bytes"),
        std::string(textOf(Reason::ambiguous).why), std::string(textOf(Reason::ambiguous).remedy)})
    EXPECT_NE(logged.find(part), std::string::npos) << part << " in " << logged;
  EXPECT_TRUE(notice_.isQuiet());
}

TEST_F(PassthroughNoticeTest, CountsStepsAndNotCalls) {
  EXPECT_EQ(pass(PassthroughNotice::kSteps - 1, 90), "");
  EXPECT_NE(pass(1, 90), "");
}

TEST_F(PassthroughNoticeTest, OfTwoCallsNeitherCountsForTheOther) {
  EXPECT_EQ(pass(PassthroughNotice::kSteps - 1, 1, 1) + pass(PassthroughNotice::kSteps - 1, 1, 2),
            "");
}

TEST_F(PassthroughNoticeTest, OnceMoreWhereCompressionHasEnded) {
  EXPECT_NE(pass(PassthroughNotice::kSteps), "");
  notice_.compressed();
  EXPECT_EQ(pass(PassthroughNotice::kSteps - 1), "");
  notice_.compressed();
  EXPECT_EQ(pass(PassthroughNotice::kSteps - 1), "") << "it has begun again";
  EXPECT_NE(pass(1).find("any more"), std::string::npos);
  notice_.compressed();
  EXPECT_TRUE(notice_.isQuiet()) << "for good";
}

class GatheredTest : public testing::Test {
 protected:
  GatheredTest()
      : stats_({.name = "comm",
                .rank = 0,
                .nRanks = 2,
                .verdict = "compress",
                .reasons = kReasonNames,
                .classes = kReasonClasses}) {}

  // What is logged of so many gathers of 100 bytes.
  std::string gather(uint64_t n) {
    std::string logged;
    for (uint64_t i = 0; i < n; ++i) {
      stats_.passedCalls[static_cast<size_t>(Reason::gathered)] += 1;
      stats_.passedBytes[static_cast<size_t>(Reason::gathered)] += 100;
      logged += notice_.gathered(stats_);
    }
    return logged;
  }
  void compress(uint64_t nBytes) {
    SlotStats& slot = stats_.addSlot("ReduceScatter fp32 Sum x 100", "q8", 0);
    slot.compressed += 1;
    slot.wireBytes += nBytes;
  }

  CommStats stats_;
  PassthroughNotice notice_;
};

TEST_F(GatheredTest, SaysOnceWhatTheSettingWouldSave) {
  compress(100);
  EXPECT_EQ(gather(PassthroughNotice::kSteps - 1), "");
  EXPECT_NE(gather(1).find("CINCH_ALLGATHER"), std::string::npos);
  EXPECT_EQ(gather(10 * PassthroughNotice::kSteps), "");
}

TEST_F(GatheredTest, LooksAgainWhereTheReductionsWereFoundLate) {
  EXPECT_EQ(gather(PassthroughNotice::kSteps), "") << "nothing is compressed yet";
  compress(100);
  EXPECT_EQ(gather(PassthroughNotice::kSteps - 1), "");
  EXPECT_NE(gather(1), "");
}

TEST_F(GatheredTest, IsSilentWhereReductionsAreMostOfWhatIsSent) {
  compress(1'000'000);
  EXPECT_EQ(gather(20 * PassthroughNotice::kSteps), "");
}

}  // namespace
}  // namespace cinch
