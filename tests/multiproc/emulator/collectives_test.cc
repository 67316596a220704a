// Every collective, over types, operations, sizes and numbers of ranks, against sums made here.
#include <gtest/gtest.h>

#include "tests/multiproc/emulator/collective_checks.h"

namespace cinch::test {
namespace {

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, MatchExactReference) {
  runRanks(GetParam(), [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    ASSERT_NE(comm, nullptr);
    for (const ncclDataType_t type : kNumericTypes) {
      for (int op = ncclSum; op < ncclNumOps; ++op) {
        for (const size_t count : {0, 1, 2, 5, 333, 4099}) {
          checkAll({type, static_cast<ncclRedOp_t>(op), count, process.nRanks()}, process.rank(),
                   comm);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

// Chunks of several slices and rounds, and counts around their edges.
TEST_P(Collectives, MatchExactReferenceWhenLarge) {
  runRanks(GetParam(), [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    ASSERT_NE(comm, nullptr);
    for (const size_t count : {65536, 65537, 399999}) {
      checkAll({ncclFloat32, ncclSum, count, process.nRanks()}, process.rank(), comm);
      checkAll({ncclBfloat16, ncclSum, count, process.nRanks()}, process.rank(), comm);
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

uint64_t fnv1a(const std::vector<char>& bytes) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3ull;
  return hash;
}

// Sums that round must still be the same bits everywhere.
TEST_P(Collectives, AllRanksHoldTheSameBits) {
  runRanks(GetParam(), [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    ASSERT_NE(comm, nullptr);
    for (const ncclDataType_t type : {ncclFloat32, ncclFloat16, ncclBfloat16, ncclFloat64}) {
      const size_t count = 200003;
      std::vector<char> buffer(count * typeBytes(type));
      uint64_t state = 88172645463325252ull + process.rank();
      for (char& byte : buffer) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        byte = static_cast<char>(state >> 56);
      }
      onStream([&](cudaStream_t s) {
        return ncclAllReduce(buffer.data(), buffer.data(), count, type, ncclSum, comm, s);
      });
      std::vector<uint64_t> hashes(process.nRanks());
      const uint64_t mine = fnv1a(buffer);
      onStream([&](cudaStream_t s) {
        return ncclAllGather(&mine, hashes.data(), 1, ncclUint64, comm, s);
      });
      for (const uint64_t hash : hashes) EXPECT_EQ(hash, mine) << "type " << type;
    }
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 7));

}  // namespace
}  // namespace cinch::test
