#include "interpose/policy/policy.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace cinch {
namespace {

Params defaults() {
  const char* const nothing[] = {nullptr};
  return readParams(nothing).params;
}

const CommFacts kNetworked{.nRanks = 4, .agreed = true, .severalHosts = true};
const Signature kGradients{CallKind::allReduce, OpClass::sum, ncclFloat32, 1 << 20};

TEST(Policy, CompressesALargeRecurringFloatSum) {
  EXPECT_EQ(decide(defaults(), kNetworked, kGradients, 10), Reason::none);
  Signature average = kGradients;
  average.op = OpClass::avg;
  EXPECT_EQ(decide(defaults(), kNetworked, average, 10), Reason::none);
}

TEST(Policy, TheLastTwoWarmUpCallsGetTheRanksReady) {
  // With the default of three warm-up calls the second and the third prepare, and the fourth is the
  // first that can be compressed.
  const Params params = defaults();
  ASSERT_EQ(params.warmupCalls, 3);
  EXPECT_EQ(decide(params, kNetworked, kGradients, 0), Reason::warmup);
  EXPECT_EQ(decide(params, kNetworked, kGradients, 1), Reason::none);
}

TEST(Policy, WhatWouldNotSaveBytesPasses) {
  // Every rank sends at least one whole tile to every other.
  CommFacts many = kNetworked;
  Signature signature = kGradients;
  signature.count = 16384;
  many.nRanks = 8;
  EXPECT_EQ(decide(defaults(), many, signature, 10), Reason::none);
  many.nRanks = 64;
  EXPECT_EQ(decide(defaults(), many, signature, 10), Reason::small);
  signature.count = 64 * 1024 * 1024;
  EXPECT_EQ(decide(defaults(), many, signature, 10), Reason::none);
}

TEST(Policy, EveryFactOfTheCommunicatorCanStopIt) {
  CommFacts alone = kNetworked, split = kNetworked, local = kNetworked;
  alone.nRanks = 1;
  split.agreed = false;
  local.severalHosts = false;
  EXPECT_EQ(decide(defaults(), alone, kGradients, 10), Reason::oneRank);
  EXPECT_EQ(decide(defaults(), split, kGradients, 10), Reason::notAgreed);
  EXPECT_EQ(decide(defaults(), local, kGradients, 10), Reason::sameHost);
}

TEST(Policy, OnlyAllReduceIsCompressed) {
  for (const CallKind kind :
       {CallKind::allGather, CallKind::reduceScatter, CallKind::reduce, CallKind::broadcast}) {
    Signature signature = kGradients;
    signature.kind = kind;
    EXPECT_EQ(decide(defaults(), kNetworked, signature, 10), Reason::kind);
  }
}

TEST(Policy, OtherOperationsPass) {
  for (const OpClass op : {OpClass::none, OpClass::other}) {
    Signature signature = kGradients;
    signature.op = op;
    EXPECT_EQ(decide(defaults(), kNetworked, signature, 10), Reason::operation);
  }
}

TEST(Policy, ExactlyThreeTypesAreCompressed) {
  std::set<int> compressed;
  for (int type = 0; type < 16; ++type) {  // all that the enum's bits can hold
    Signature signature = kGradients;
    signature.dataType = static_cast<ncclDataType_t>(type);
    const Reason reason = decide(defaults(), kNetworked, signature, 10);
    if (reason == Reason::none)
      compressed.insert(type);
    else
      EXPECT_EQ(reason, Reason::dataType) << type;
  }
  EXPECT_EQ(compressed, (std::set<int>{ncclFloat16, ncclFloat32, ncclBfloat16}));
}

TEST(Policy, TheFloorIsInBytes) {
  const Params params = defaults();
  Signature signature = kGradients;
  signature.count = params.minBytes / 4;
  EXPECT_EQ(decide(params, kNetworked, signature, 10), Reason::none);
  signature.count -= 1;
  EXPECT_EQ(decide(params, kNetworked, signature, 10), Reason::small);
  signature.dataType = ncclBfloat16;
  signature.count = params.minBytes / 2;
  EXPECT_EQ(decide(params, kNetworked, signature, 10), Reason::none);
  signature.count = 0;
  EXPECT_EQ(decide(params, kNetworked, signature, 10), Reason::small);
}

TEST(Policy, ObserveNeverCompresses) {
  Params params = defaults();
  params.mode = Mode::observe;
  EXPECT_EQ(decide(params, kNetworked, kGradients, 10), Reason::observe);
}

TEST(Policy, EveryReasonHasItsOwnName) {
  std::set<std::string> names(kReasonNames, kReasonNames + kReasonCount);
  EXPECT_EQ(names.size(), static_cast<size_t>(kReasonCount));
  for (const char* name : kReasonNames) EXPECT_NE(std::string(name), "");
}

TEST(Policy, IntegerBroadcastsMarkANewLayout) {
  EXPECT_TRUE(marksNewLayout({CallKind::broadcast, OpClass::none, ncclInt32, 100}));
  EXPECT_TRUE(marksNewLayout({CallKind::broadcast, OpClass::none, ncclInt64, 1}));
  EXPECT_FALSE(marksNewLayout({CallKind::broadcast, OpClass::none, ncclFloat32, 100}));
  EXPECT_FALSE(marksNewLayout({CallKind::allReduce, OpClass::sum, ncclInt32, 100}));
}

}  // namespace
}  // namespace cinch
