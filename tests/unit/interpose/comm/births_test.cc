#include "interpose/comm/births.h"

#include <gtest/gtest.h>

#include <future>

namespace cinch {
namespace {

void expectNone(const Birth&) {
  ADD_FAILURE() << "it is the other's";
}

TEST(Births, AreNumberedByKind) {
  ncclComm_t handle = nullptr;
  Births births;
  EXPECT_EQ(births.number(&handle, 0, 5).ordinal, 0u);
  const Birth second = births.number(&handle, 0, -2);
  EXPECT_EQ(second.ordinal, 1u);
  EXPECT_EQ(second.part, -2);
  EXPECT_EQ(second.handle, &handle);
  EXPECT_EQ(births.number(&handle, -7, -7).ordinal, 0u) << "other ranks did not take part in it";
}

TEST(Births, AreHandedOutOnce) {
  ncclComm_t handle = nullptr;
  Births births;
  for (int i = 0; i < 3; ++i) births.await(births.number(&handle, 0, 0));
  std::vector<uint64_t> ordinals;
  EXPECT_TRUE(births.take([&](const Birth& birth) { ordinals.push_back(birth.ordinal); }));
  EXPECT_EQ(ordinals, (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_TRUE(births.take(expectNone));
}

// Else a watchdog would wait as long as ranks wait for one another, or be told that a communicator
// is ready which nobody knows yet.
TEST(Births, WhoAsksWhileTheyAreFollowedIsToldToAskAgain) {
  ncclComm_t handle = nullptr;
  Births births;
  births.await(births.number(&handle, 0, 0));
  std::promise<void> begun, others;
  auto following = std::async([&] {
    return births.take([&](const Birth&) {
      begun.set_value();
      others.get_future().wait();
    });
  });
  begun.get_future().wait();
  EXPECT_FALSE(births.take(expectNone));
  births.await(births.number(&handle, 0, 1));
  EXPECT_FALSE(births.take(expectNone));
  others.set_value();
  EXPECT_TRUE(following.get());
  size_t nTaken = 0;
  EXPECT_TRUE(births.take([&](const Birth&) { ++nTaken; }));
  EXPECT_EQ(nTaken, 1u);
}

// Two watchdogs of a communicator from which nothing is made.
TEST(Births, WhoeverAsksForNoneIsAnsweredAtOnce) {
  Births births;
  auto other = std::async([&] {
    bool areThere = true;
    for (int i = 0; i < 100000; ++i) areThere &= births.take(expectNone);
    return areThere;
  });
  for (int i = 0; i < 100000; ++i) ASSERT_TRUE(births.take(expectNone));
  EXPECT_TRUE(other.get());
}

}  // namespace
}  // namespace cinch
