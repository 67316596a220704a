#include "emulator/nccl/user_operations.h"

#include <gtest/gtest.h>

namespace cinch::emulator {
namespace {

TEST(UserOperations, AreFoundUntilTheyAreRemoved) {
  UserOperations operations;
  const ncclRedOp_t a = operations.add({ncclFloat32, {1, nullptr}});
  const ncclRedOp_t b = operations.add({ncclInt8, {2, nullptr}});
  EXPECT_NE(a, b);
  ASSERT_TRUE(operations.find(b).has_value());
  EXPECT_EQ(operations.find(b)->type, ncclInt8);
  EXPECT_EQ(operations.find(b)->scalar.value, 2u);
  EXPECT_TRUE(operations.remove(a));
  EXPECT_FALSE(operations.find(a).has_value());
  EXPECT_FALSE(operations.remove(a));
  EXPECT_TRUE(operations.find(b).has_value());
}

TEST(UserOperations, GiveHandlesOutAgain) {
  UserOperations operations;
  const ncclRedOp_t first = operations.add({ncclFloat32, {1, nullptr}});
  operations.add({ncclFloat32, {2, nullptr}});
  EXPECT_TRUE(operations.remove(first));
  EXPECT_EQ(operations.add({ncclFloat64, {3, nullptr}}), first);
  EXPECT_EQ(operations.find(first)->type, ncclFloat64);
}

TEST(UserOperations, DoNotTakeThoseOfOthers) {
  UserOperations mine, theirs;
  for (int i = 0; i < 100; ++i) {
    const ncclRedOp_t handle = theirs.add({ncclFloat32, {}});
    mine.add({ncclFloat32, {}});
    EXPECT_GE(static_cast<int>(handle), ncclNumOps);
    EXPECT_FALSE(mine.find(handle).has_value());
    EXPECT_FALSE(mine.remove(handle));
  }
  for (int builtIn = -1; builtIn < ncclNumOps; ++builtIn) {
    EXPECT_FALSE(mine.remove(static_cast<ncclRedOp_t>(builtIn)));
  }
}

}  // namespace
}  // namespace cinch::emulator
