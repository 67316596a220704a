#include "interpose/agree/strangers.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

using std::chrono::seconds;
const Deadline kNow = Clock::now();

TEST(Strangers, HaveTheirTime) {
  Strangers strangers(10);
  EXPECT_EQ(strangers.deadline(), kNoDeadline);
  strangers.add(1, ipv4(10, 0, 0, 1), kNow + seconds(2));
  strangers.add(2, ipv4(10, 0, 0, 1), kNow + seconds(1));
  EXPECT_EQ(strangers.deadline(), kNow + seconds(1));
  EXPECT_TRUE(strangers.takeExpired(kNow).empty());
  EXPECT_EQ(strangers.takeExpired(kNow + seconds(1)), std::vector<uint64_t>{2});
  strangers.remove(1);
  EXPECT_TRUE(strangers.takeExpired(kNow + seconds(9)).empty());
  EXPECT_FALSE(strangers.giveWay());
}

TEST(Strangers, TheOldestOfAFloodGivesWay) {
  Strangers strangers(4);
  strangers.add(1, ipv4(10, 0, 0, 1), kNow);
  for (uint64_t id = 2; id <= 4; ++id) EXPECT_FALSE(strangers.add(id, ipv4(10, 0, 0, 2), kNow));
  for (uint64_t id = 5; id <= 100; ++id)
    EXPECT_EQ(strangers.add(id, ipv4(10, 0, 0, 2), kNow), id - 3) << "and not the other host's";
  EXPECT_EQ(strangers.add(101, ipv4(10, 0, 0, 3), kNow), 98u);
  EXPECT_EQ(strangers.add(102, ipv4(10, 0, 0, 4), kNow), 99u);
}

TEST(Strangers, AmongEqualsTheOldestGivesWay) {
  Strangers strangers(3);
  for (uint8_t id = 1; id <= 3; ++id) strangers.add(id, ipv4(10, 0, 0, 200 - id), kNow);
  for (uint8_t id = 4; id <= 100; ++id)
    EXPECT_EQ(strangers.add(id, ipv4(10, 0, 0, 200 - id), kNow), id - 3u);
}

TEST(Strangers, OneIsAlwaysLet) {
  Strangers strangers(0);
  EXPECT_FALSE(strangers.add(1, ipv4(10, 0, 0, 1), kNow));
  EXPECT_EQ(strangers.add(2, ipv4(10, 0, 0, 1), kNow), 1u);
}

}  // namespace
}  // namespace cinch
