#include "interpose/policy/callers.h"

#include <gtest/gtest.h>

namespace cinch {
namespace {

constexpr Caller kAutograd = Caller::autograd, kOther = Caller::other;

// Calls by the index of their signature; all are large.
class LargeCalls {
 public:
  bool isAlone(uint32_t index, Caller caller, CallKind kind = CallKind::allReduce) {
    return callers_.note({kind, OpClass::sum, ncclFloat32, 100000 + index}, index, true, caller)
        .isAutogradAlone;
  }
  bool isAloneWithout(Caller caller) {
    return callers_.note({CallKind::allReduce, OpClass::sum, ncclFloat32, 7}, {}, true, caller)
        .isAutogradAlone;
  }
  // From the last call on, until it is alone; nothing where it takes longer than long.
  std::optional<uint32_t> nUntilAlone(uint32_t index) {
    for (uint32_t n = 1; n <= 2 * kLongerThanStep; ++n)
      if (isAlone(index, kAutograd)) return n;
    return std::nullopt;
  }

 private:
  Callers callers_;
};

TEST(Callers, AutogradThreadsAreAloneFromTheStart) {
  LargeCalls made;
  EXPECT_TRUE(made.isAlone(0, kAutograd));
  EXPECT_TRUE(made.isAlone(1, kOther, CallKind::broadcast)) << "these bring parameters";
}

TEST(Callers, WhatOthersReduceOrGatherIsRememberedForLongerThanAStep) {
  for (const CallKind kind : {CallKind::allReduce, CallKind::allGather, CallKind::reduceScatter}) {
    LargeCalls made;
    EXPECT_FALSE(made.isAlone(1, kOther, kind));
    EXPECT_EQ(made.nUntilAlone(0), kLongerThanStep);
  }
}

TEST(Callers, AFirstStepThatOthersMadeIsForgottenOnceAutogradThreadsMakeIt) {
  LargeCalls made;
  for (const uint32_t bucket : {0, 1, 2}) EXPECT_FALSE(made.isAlone(bucket, kOther));
  for (const uint32_t bucket : {0, 1, 2}) EXPECT_FALSE(made.isAlone(bucket, kAutograd)) << "once";
  EXPECT_FALSE(made.isAlone(0, kAutograd));
  EXPECT_FALSE(made.isAlone(1, kAutograd));
  EXPECT_TRUE(made.isAlone(2, kAutograd));
}

// Layers that are split: what is summed up forwards is summed up backwards.
TEST(Callers, WhatBothMakeInEachStepIsNot) {
  LargeCalls made;
  for (uint32_t step = 0; step < kLongerThanStep; ++step)
    for (const Caller caller : {kOther, kAutograd}) EXPECT_FALSE(made.isAlone(0, caller)) << step;
}

TEST(Callers, OneCallTooManyEndsIt) {
  LargeCalls made;
  for (const Caller caller : {kOther, kAutograd, kAutograd}) made.isAlone(0, caller);
  EXPECT_TRUE(made.isAlone(0, kAutograd));
  EXPECT_FALSE(made.isAlone(1, kOther)) << "which autograd threads have not made";
  EXPECT_FALSE(made.isAlone(0, kAutograd));
  made.isAlone(1, kAutograd);
  EXPECT_TRUE(made.isAlone(1, kAutograd));
  EXPECT_FALSE(made.isAlone(1, kOther)) << "for the second time";
  EXPECT_EQ(made.nUntilAlone(1), kLongerThanStep);
}

TEST(Callers, CallsBeyondTheTableAreOthersForGood) {
  LargeCalls made;
  EXPECT_FALSE(made.isAloneWithout(kOther));
  EXPECT_EQ(made.nUntilAlone(0), kLongerThanStep);
}

}  // namespace
}  // namespace cinch
