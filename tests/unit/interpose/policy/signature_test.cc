#include "interpose/policy/signature.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

namespace cinch {
namespace {

TEST(SignatureTable, CountsLikeAMap) {
  std::mt19937 random(7);
  SignatureTable table;
  std::map<std::tuple<int, int, int, uint64_t>, SignatureTable::Seen> model;
  for (int i = 0; i < 20000; ++i) {
    const Signature signature{static_cast<CallKind>(random() % 8),
                              static_cast<OpClass>(random() % 5),
                              static_cast<ncclDataType_t>(random() % ncclNumTypes), random() % 4};
    const auto key =
        std::make_tuple(static_cast<int>(signature.kind), static_cast<int>(signature.op),
                        static_cast<int>(signature.dataType), signature.count);
    const auto [entry, isNew] =
        model.try_emplace(key, SignatureTable::Seen{static_cast<uint32_t>(model.size()) + 1, 0});
    if (!isNew) ++entry->second.before;
    const auto seen = table.observe(signature);
    ASSERT_TRUE(seen.has_value());
    ASSERT_EQ(seen->index, entry->second.index);
    ASSERT_EQ(seen->before, entry->second.before);
  }
}

TEST(SignatureTable, ACallThatDidNotTakePlaceIsTakenBack) {
  SignatureTable table;
  const Signature signature{CallKind::allReduce, OpClass::sum, ncclFloat32, 8};
  table.takeBack(signature);  // never seen: nothing to take back
  EXPECT_EQ(table.observe(signature)->before, 0u);
  EXPECT_EQ(table.observe(signature)->before, 1u);
  table.takeBack(signature);
  EXPECT_EQ(table.observe(signature)->before, 1u);
}

TEST(SignatureTable, FindsWhatWasSeenAndCountsNothing) {
  SignatureTable table;
  const Signature first{CallKind::allReduce, OpClass::sum, ncclFloat32, 8};
  const Signature second{CallKind::reduceScatter, OpClass::sum, ncclFloat32, 8};
  EXPECT_FALSE(table.find(first));
  table.observe(first);
  table.observe(second);
  EXPECT_EQ(table.find(first), 1u);
  EXPECT_EQ(table.find(second), 2u);
  EXPECT_EQ(table.observe(second)->before, 1u);
  table.takeBack(second);
  table.takeBack(second);
  EXPECT_FALSE(table.find(second)) << "it never took place";
  table.observe(second);
  EXPECT_EQ(table.find(second), 3u) << "what was 2 is not given out again";
}

TEST(SignatureTable, AFullTableRefusesOnlyNewSignatures) {
  SignatureTable table;
  for (uint64_t count = 0; count < SignatureTable::kMaxSignatures; ++count)
    ASSERT_TRUE(table.observe({CallKind::allReduce, OpClass::sum, ncclFloat32, count}));
  EXPECT_FALSE(table.observe({CallKind::allReduce, OpClass::sum, ncclFloat32, 1u << 30}));
  const auto known = table.observe({CallKind::allReduce, OpClass::sum, ncclFloat32, 5});
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->before, 1u);
}

TEST(Signature, OperationsFallIntoClasses) {
  EXPECT_EQ(opClassOf(ncclSum), OpClass::sum);
  EXPECT_EQ(opClassOf(ncclAvg), OpClass::avg);
  for (const int op : {2, 3, 4 + 1, 0x12345678, -1})
    EXPECT_EQ(opClassOf(static_cast<ncclRedOp_t>(op)), OpClass::other);
}

TEST(Signature, EveryKindHasNcclsName) {
  EXPECT_STREQ(functionName(CallKind::allReduce), "ncclAllReduce");
  EXPECT_STREQ(functionName(CallKind::allGather), "ncclAllGather");
  EXPECT_STREQ(functionName(CallKind::reduceScatter), "ncclReduceScatter");
  EXPECT_STREQ(functionName(CallKind::reduce), "ncclReduce");
  EXPECT_STREQ(functionName(CallKind::broadcast), "ncclBroadcast");
  EXPECT_STREQ(functionName(CallKind::allToAll), "ncclAlltoAll");
  EXPECT_STREQ(functionName(CallKind::gather), "ncclGather");
  EXPECT_STREQ(functionName(CallKind::scatter), "ncclScatter");
}

TEST(Signature, IsDescribedForPeople) {
  EXPECT_EQ(describe({CallKind::allReduce, OpClass::avg, ncclBfloat16, 42}),
            "AllReduce bf16 Avg x 42");
  EXPECT_EQ(describe({CallKind::reduceScatter, OpClass::preMulSum, ncclFloat32, 9}),
            "ReduceScatter fp32 PreMulSum x 9");
  EXPECT_EQ(describe({CallKind::broadcast, OpClass::none, ncclInt32, 7}), "Broadcast int32 x 7");
  EXPECT_NE(describe({CallKind::allReduce, OpClass::sum, static_cast<ncclDataType_t>(15), 1})
                .find("unknown-type"),
            std::string::npos);
}

TEST(Signature, ANumberHoldsAllOfIt) {
  for (const CallKind kind : {CallKind::allReduce, CallKind::scatter})
    for (const OpClass op : {OpClass::none, OpClass::other})
      for (const ncclDataType_t type : {ncclInt8, ncclBfloat16, static_cast<ncclDataType_t>(200)})
        for (const uint64_t count : {uint64_t{0}, uint64_t{12345}, kMaxCount}) {
          const Signature signature{kind, op, type, count};
          EXPECT_EQ(unpacked(packed(signature)), signature);
        }
}

TEST(Signature, SizesOfTypes) {
  EXPECT_EQ(bytesOf(ncclFloat32), 4u);
  EXPECT_EQ(bytesOf(ncclBfloat16), 2u);
  EXPECT_EQ(bytesOf(ncclFloat8e5m2), 1u);
  EXPECT_EQ(bytesOf(static_cast<ncclDataType_t>(ncclNumTypes)), 0u);
}

}  // namespace
}  // namespace cinch
