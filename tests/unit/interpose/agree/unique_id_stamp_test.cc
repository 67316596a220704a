#include "interpose/agree/unique_id_stamp.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

UniqueId randomBytes(std::mt19937_64& random) {
  UniqueId id;
  for (uint8_t& byte : id) byte = static_cast<uint8_t>(random());
  return id;
}

UniqueIdStamp randomStamp(std::mt19937_64& random) {
  UniqueIdStamp stamp;
  bool v6 = random() & 1;
  stamp.server.address.family = v6 ? Family::ipv6 : Family::ipv4;
  for (int i = 0; i < (v6 ? 16 : 4); ++i) {
    stamp.server.address.bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(random());
  }
  stamp.server.port = static_cast<uint16_t>(random());
  stamp.nonce = random();
  return stamp;
}

TEST(UniqueIdStamp, ComesBackAsWrittenOverAnyTail) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    UniqueId id = randomBytes(random);
    UniqueIdStamp stamp = randomStamp(random);
    writeStamp(stamp, id.data());
    ASSERT_EQ(readStamp(id.data()), stamp);
    ASSERT_TRUE(hasAgreementStamp(id.data()));
  }
}

TEST(UniqueIdStamp, LeavesNcclsBytesAlone) {
  std::mt19937_64 random(2);
  UniqueId id = randomBytes(random);
  UniqueId before = id;
  writeStamp(randomStamp(random), id.data());
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 80, id.begin()));
  EXPECT_NE(id, before);
}

TEST(UniqueIdStamp, IsNotSeenInZerosOrGarbage) {
  UniqueId zeros = {};
  EXPECT_FALSE(hasAgreementStamp(zeros.data()));
  std::mt19937_64 random(3);
  for (int i = 0; i < 10000; ++i) {
    ASSERT_FALSE(hasAgreementStamp(randomBytes(random).data()));
  }
}

TEST(UniqueIdStamp, AnyFlippedBitOfTheIdInvalidatesIt) {
  std::mt19937_64 random(4);
  UniqueId id = randomBytes(random);
  writeStamp(randomStamp(random), id.data());
  for (size_t bit = 0; bit < id.size() * 8; ++bit) {
    UniqueId damaged = id;
    damaged[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    ASSERT_FALSE(hasAgreementStamp(damaged.data())) << "bit " << bit;
  }
}

TEST(UniqueIdStamp, OfAnotherIdInTheSameMemoryDoesNotCount) {
  std::mt19937_64 random(5);
  UniqueId id = randomBytes(random);
  writeStamp(randomStamp(random), id.data());
  // NCCL makes a new id there and leaves the tail as it was.
  for (size_t i = 0; i < 50; ++i) id[i] = static_cast<uint8_t>(random());
  EXPECT_FALSE(hasAgreementStamp(id.data()));
}

TEST(UniqueIdStamp, HasTheLayoutOfItsTable) {
  UniqueId id = {};
  UniqueIdStamp stamp;
  stamp.server = {ipv4(10, 1, 2, 3), 0x1234};
  stamp.nonce = 0x0102030405060708;
  writeStamp(stamp, id.data());
  EXPECT_EQ(std::string(id.begin() + 80, id.begin() + 87), "CINCHid");
  EXPECT_EQ(id[87], 1);
  EXPECT_EQ(id[88], 4);
  EXPECT_EQ(id[90], 0x34);
  EXPECT_EQ(id[91], 0x12);
  EXPECT_EQ(id[96], 10);
  EXPECT_EQ(id[99], 3);
  EXPECT_EQ(id[112], 8);
  EXPECT_EQ(id[119], 1);
}

}  // namespace
}  // namespace cinch
