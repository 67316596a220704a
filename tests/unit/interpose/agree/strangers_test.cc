#include "interpose/agree/strangers.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

using std::chrono::seconds;
const Deadline kNow = Clock::now();

using Ids = std::vector<uint64_t>;

TEST(Strangers, HaveTheirTime) {
  Strangers strangers(10);
  EXPECT_EQ(strangers.deadline(), kNoDeadline);
  strangers.add(1, ipv4(10, 0, 0, 1), kNow + seconds(2));
  strangers.add(2, ipv4(10, 0, 0, 1), kNow + seconds(1));
  EXPECT_EQ(strangers.deadline(), kNow + seconds(1));
  EXPECT_EQ(strangers.takeOut(kNow), Ids());
  EXPECT_EQ(strangers.takeOut(kNow + seconds(1)), Ids{2});
  strangers.remove(1);
  EXPECT_EQ(strangers.takeOut(kNow + seconds(9)), Ids());
}

TEST(Strangers, TheOldestOfAFloodGivesWay) {
  Strangers strangers(4);
  strangers.add(1, ipv4(10, 0, 0, 1), kNow + seconds(1));
  for (uint64_t id = 2; id <= 4; ++id) strangers.add(id, ipv4(10, 0, 0, 2), kNow + seconds(1));
  EXPECT_EQ(strangers.takeOut(kNow), Ids());
  for (uint64_t id = 5; id <= 100; ++id) {
    strangers.add(id, ipv4(10, 0, 0, 2), kNow + seconds(1));
    EXPECT_EQ(strangers.takeOut(kNow), Ids{id - 3}) << "and not the other host's";
  }
  for (uint64_t id = 101; id <= 103; ++id) strangers.add(id, ipv4(10, 0, 0, 2), kNow + seconds(1));
  EXPECT_EQ(strangers.takeOut(kNow), (Ids{98, 99, 100})) << "several at once";
}

TEST(Strangers, AmongEqualsTheOldestGivesWay) {
  Strangers strangers(3);
  for (uint8_t id = 1; id <= 100; ++id) {
    strangers.add(id, ipv4(10, 0, 0, 200 - id), kNow + seconds(1));
    EXPECT_EQ(strangers.takeOut(kNow), id > 3 ? Ids{id - 3u} : Ids());
  }
}

TEST(Strangers, OneIsAlwaysLet) {
  Strangers strangers(0);
  strangers.add(1, ipv4(10, 0, 0, 1), kNow + seconds(1));
  EXPECT_EQ(strangers.takeOut(kNow), Ids());
}

TEST(Strangers, OneMayBeHurried) {
  Strangers strangers(9);
  EXPECT_FALSE(strangers.hurry(kNow));
  strangers.add(1, ipv4(10, 0, 0, 1), kNow + seconds(1));
  strangers.add(2, ipv4(10, 0, 0, 2), kNow + seconds(1));
  strangers.add(3, ipv4(10, 0, 0, 2), kNow + seconds(1));
  EXPECT_TRUE(strangers.hurry(kNow));
  EXPECT_EQ(strangers.takeOut(kNow), Ids{2});
}

}  // namespace
}  // namespace cinch
