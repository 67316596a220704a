#include "interpose/plan/residual_memory.h"

#include <gtest/gtest.h>

#include "kernels/codec/registry.h"

namespace cinch {
namespace {

constexpr uint64_t kCount = 100 * wire::kTileElems;
constexpr CodingRule kRule{.gain = 0.1f};

CollectivePlan planOf(CallKind kind) {
  return planCollective({kind, OpClass::sum, ncclFloat32, kCount}, ElementType::fp32,
                        codec::formatOf("q4"), 1, 4);
}

uint64_t bytesOf(ResidualType type, bool mayMove) {
  return residualSizes(planOf(CallKind::allReduce), type, mayMove).total();
}

TEST(ResidualMemory, CoversTheBucketAndTheShardOrTheBucketTwice) {
  EXPECT_EQ(bytesOf(ResidualType::fp32, false), kCount * 4 + kCount);
  EXPECT_EQ(bytesOf(ResidualType::fp32, true), kCount * 8);
  EXPECT_EQ(bytesOf(ResidualType::bf16, true), kCount * 4);
  EXPECT_EQ(bytesOf(ResidualType::int8, true), 2 * 100 * 1056u);
}

TEST(ResidualMemory, TheRichestFormThatFitsIsTaken) {
  const CollectivePlan plan = planOf(CallKind::allReduce);
  for (const bool mayMove : {false, true}) {
    const auto within = [&](uint64_t left) { return withinMemory(kRule, plan, mayMove, left); };
    for (const ResidualType type : {ResidualType::fp32, ResidualType::bf16, ResidualType::int8}) {
      EXPECT_EQ(within(bytesOf(type, mayMove)).residualType, type);
      EXPECT_EQ(within(bytesOf(type, mayMove)).gain, kRule.gain);
    }
    EXPECT_EQ(within(bytesOf(ResidualType::fp32, mayMove) - 1).residualType, ResidualType::bf16);
    EXPECT_EQ(within(bytesOf(ResidualType::bf16, mayMove) - 1).residualType, ResidualType::int8);
    EXPECT_EQ(within(bytesOf(ResidualType::int8, mayMove) - 1).gain, 0) << "and then none";
    EXPECT_EQ(within(0).gain, 0);
  }
}

TEST(ResidualMemory, NoRicherFormIsTakenThanWasAskedFor) {
  CodingRule rule = kRule;
  rule.residualType = ResidualType::int8;
  EXPECT_EQ(withinMemory(rule, planOf(CallKind::allReduce), true, ~uint64_t{0}).residualType,
            ResidualType::int8);
}

TEST(ResidualMemory, WhatKeepsNothingNeedsNone) {
  const CodingRule rule = withinMemory(kRule, planOf(CallKind::reduceScatter), false, 0);
  EXPECT_EQ(rule.gain, kRule.gain);
  EXPECT_EQ(withinMemory(CodingRule{}, planOf(CallKind::allReduce), false, 0).residualType,
            ResidualType::fp32);
}

}  // namespace
}  // namespace cinch
