// Runs with CINCH_STRICT=y.
#include <gtest/gtest.h>

#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

const Signature kGradients{CallKind::allReduce, OpClass::sum, ncclFloat32, 1 << 20};

TEST(Strict, ACommunicatorThatWouldPassIsAnError) {
  test::resetFakes();
  const test::TestRank rank = test::passingRank();
  const auto settled = rank.comm->settle();
  ASSERT_FALSE(settled.ok());
  EXPECT_EQ(settled.error().status, Status::invalidUsage);
  EXPECT_NE(settled.error().message.find("CINCH_STRICT"), std::string::npos);
  EXPECT_NE(settled.error().message.find("the test wants it so"), std::string::npos);
  EXPECT_EQ(rank.comm->health(), ncclInvalidUsage) << "for those who ask later";
  EXPECT_EQ(rank.comm->decide(kGradients, nullptr).reason, Reason::notAgreed);
}

TEST(Strict, OneRankNeedsNobody) {
  test::resetFakes();
  const test::TestRank rank({0, 1}, Joining::passing("one rank"));
  EXPECT_TRUE(rank.comm->settle().ok());
  EXPECT_EQ(rank.comm->health(), ncclSuccess);
  EXPECT_EQ(rank.comm->decide(kGradients, nullptr).reason, Reason::oneRank);
}

TEST(Strict, AgreementIsFine) {
  test::resetFakes();
  const auto ranks = test::makeRanks(2);
  for (const auto& rank : ranks) {
    EXPECT_TRUE(rank->comm->settle().ok());
    EXPECT_TRUE(rank->comm->agreed());
  }
}

}  // namespace
}  // namespace cinch
