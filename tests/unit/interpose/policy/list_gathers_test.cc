#include "interpose/policy/list_gathers.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace cinch {
namespace {

// What becomes of calls, each by a letter: a digit is a broadcast from that rank, 'i' one of
// integers from rank 0, 'h' one of 16-bit values from rank 1, and 'R' a reduction. Those that are
// let through are written down in the order in which they are.
class Calls {
 public:
  explicit Calls(int nRanks) : gathers_(nRanks) {}

  Calls& make(const std::string& letters) {
    for (const char letter : letters) make(letter);
    return *this;
  }
  void make(char letter) {
    const ListGathers::Call call{signatureOf(letter), static_cast<uint32_t>(letter), true};
    const int root = letter >= '0' && letter <= '9' ? letter - '0' : letter == 'h';
    const bool isHeld = gathers_.hold(call, root, mayBegin);
    for (const auto& released : gathers_.released()) through_ += static_cast<char>(*released.index);
    if (!isHeld) through_ += letter;
    nGathers_ += gathers_.hasGathered();
  }
  Calls& commit() {
    gathers_.commit();
    committed_ = through_;
    return *this;
  }
  Calls& takeBack() {
    gathers_.takeBack();
    through_ = committed_;
    return *this;
  }
  bool mayBegin = true;

  const std::string& through() const { return through_; }
  int nGathers() const { return nGathers_; }

 private:
  static Signature signatureOf(char letter) {
    if (letter == 'R') return {CallKind::allReduce, OpClass::sum, ncclFloat32, 1000};
    const ncclDataType_t type = letter == 'i'   ? ncclInt64
                                : letter == 'h' ? ncclFloat16
                                                : ncclFloat32;
    return {CallKind::broadcast, OpClass::none, type, 1000 + static_cast<uint64_t>(letter)};
  }

  ListGathers gathers_;
  std::string through_, committed_;
  int nGathers_ = 0;
};

std::string through(int nRanks, const std::string& letters) {
  return Calls(nRanks).make(letters).through();
}

TEST(ListGathers, OneBroadcastFromEachRankIsOne) {
  EXPECT_EQ(through(2, "R01R"), "RR");
  EXPECT_EQ(through(4, "R0123R01230123R"), "RRR");
  EXPECT_EQ(Calls(4).make("R0123R01230123R").nGathers(), 3);
}

TEST(ListGathers, OthersAreLetThroughInTheirOrder) {
  EXPECT_EQ(through(2, "0R"), "0R") << "as parameters are broadcast";
  EXPECT_EQ(through(2, "000R"), "000R");
  EXPECT_EQ(through(2, "1R"), "1R");
  EXPECT_EQ(through(3, "01R2R"), "01R2R") << "something comes between";
  EXPECT_EQ(through(3, "010012R"), "010R") << "the last three are one";
  EXPECT_EQ(through(2, "i1R0hR"), "i1R0hR") << "of other types";
  EXPECT_EQ(through(1, "00R"), "00R") << "there are no others to gather from";
}

TEST(ListGathers, TheLastOneIsHeldBackUntilTheNextCall) {
  EXPECT_EQ(through(2, "R0"), "R");
  EXPECT_EQ(through(3, "R01"), "R");
}

TEST(ListGathers, NoneBeginsWhereItMayNot) {
  Calls calls(2);
  calls.mayBegin = false;
  EXPECT_EQ(calls.make("01R01").through(), "01R01") << "parameters of each rank's own";
  calls.mayBegin = true;
  calls.make("0");
  calls.mayBegin = false;
  EXPECT_EQ(calls.make("1R").through(), "01R01R") << "one that has begun goes on";
  calls.mayBegin = true;
  calls.make("0");
  calls.mayBegin = false;
  EXPECT_EQ(calls.make("00R").through(), "01R01R000R") << "and nothing is held for ever";
}

TEST(ListGathers, WhatWasTakenBackWasNotMade) {
  Calls calls(3);
  calls.make("R01").commit().make("2R").takeBack();
  EXPECT_EQ(calls.make("2R").through(), "RR") << "the gather goes on";
  calls.commit().make("01").takeBack();
  EXPECT_EQ(calls.make("2R").through(), "RR2R") << "it never began";
}

// A rank whose calls are refused and repeated knows the same as one whose are not.
TEST(ListGathers, IsTheSameHoweverCallsAreGroupedAndTakenBack) {
  std::mt19937 random(7);
  for (int nRanks = 2; nRanks <= 4; ++nRanks)
    for (int run = 0; run < 300; ++run) {
      Calls plain(nRanks), other(nRanks);
      for (int i = 0; i < 60; ++i) {
        std::string group;
        for (uint32_t n = random() % 4; n > 0; --n) group += "R0123h"[random() % 6];
        plain.make(group).commit();
        if (random() % 3 == 0) other.make(group).takeBack();
        for (const char letter : group) other.make(std::string(1, letter)).commit();
        ASSERT_EQ(other.through(), plain.through()) << group;
      }
    }
}

}  // namespace
}  // namespace cinch
