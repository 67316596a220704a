// What a rank sends to itself becomes a copy, pair by pair.
#include "emulator/nccl/group.h"

#include <gtest/gtest.h>

namespace cinch::emulator {
namespace {

Operation transfer(Kind kind, int peer, size_t count, void* buffer,
                   ncclDataType_t type = ncclFloat32) {
  const bool sends = kind == Kind::send;
  return {kind, sends ? buffer : nullptr, sends ? nullptr : buffer, count, type, ncclSum, peer};
}

TEST(SelfTransfers, PairInOrder) {
  int a, b, c, d;
  const auto paired =
      pairSelfTransfers({transfer(Kind::receive, 1, 4, &c), transfer(Kind::send, 1, 4, &a),
                         transfer(Kind::send, 1, 9, &b), transfer(Kind::receive, 1, 9, &d)},
                        1);
  ASSERT_TRUE(paired.ok());
  ASSERT_EQ(paired.value().size(), 2u);
  EXPECT_EQ(paired.value()[0].kind, Kind::copy);
  EXPECT_EQ(paired.value()[0].input, &a);
  EXPECT_EQ(paired.value()[0].output, &c);
  EXPECT_EQ(paired.value()[1].input, &b);
  EXPECT_EQ(paired.value()[1].output, &d);
}

TEST(SelfTransfers, LeaveTheRestAlone) {
  int a;
  const std::vector<Operation> others = {transfer(Kind::send, 0, 1, &a),
                                         transfer(Kind::receive, 2, 1, &a),
                                         {Kind::broadcast, &a, &a, 1, ncclFloat32, ncclSum, 1}};
  const auto paired = pairSelfTransfers(others, 1);
  ASSERT_TRUE(paired.ok());
  ASSERT_EQ(paired.value().size(), others.size());
  for (size_t i = 0; i < others.size(); ++i) EXPECT_EQ(paired.value()[i].kind, others[i].kind);
}

TEST(SelfTransfers, MustPairUp) {
  int a, b;
  EXPECT_FALSE(pairSelfTransfers({transfer(Kind::send, 1, 1, &a)}, 1).ok());
  EXPECT_FALSE(pairSelfTransfers({transfer(Kind::receive, 1, 1, &a)}, 1).ok());
  const auto unequal =
      pairSelfTransfers({transfer(Kind::send, 1, 2, &a), transfer(Kind::receive, 1, 1, &b)}, 1);
  ASSERT_FALSE(unequal.ok());
  EXPECT_EQ(unequal.error().status, Status::invalidUsage);
  // Bytes count, not elements.
  EXPECT_TRUE(pairSelfTransfers({transfer(Kind::send, 1, 2, &a, ncclFloat16),
                                 transfer(Kind::receive, 1, 1, &b, ncclInt32)},
                                1)
                  .ok());
}

}  // namespace
}  // namespace cinch::emulator
