// Every collective, over types, operations, sizes and numbers of ranks, against sums made here.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "tests/multiproc/emulator/elements.h"
#include "tests/multiproc/emulator/rank_processes.h"

namespace cinch::test {
namespace {

// One call's parameters, and the data that all ranks can compute of one another.
struct Case {
  ncclDataType_t type;
  ncclRedOp_t op;
  size_t count;
  int nRanks;
};

// Element `index` of what `rank` contributes: small whole numbers, whose sums and products over up
// to 7 ranks every type holds exactly.
double inputValue(const Case& c, int rank, size_t index) {
  const size_t mixed = (index * 2654435761u + rank * 40503u) >> 7;
  if (c.op == ncclProd) return mixed % 5 == 0 ? 2 : 1;
  const double value = static_cast<double>(mixed % 17);
  return isUnsigned(c.type) ? value : value - 8;
}

double combine(ncclRedOp_t op, double a, double b) {
  switch (op) {
    case ncclProd:
      return a * b;
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

double reducedValue(const Case& c, size_t index) {
  double value = inputValue(c, 0, index);
  for (int rank = 1; rank < c.nRanks; ++rank)
    value = combine(c.op, value, inputValue(c, rank, index));
  if (c.op != ncclAvg) return value;
  const double average = value / c.nRanks;
  return isFloating(c.type) ? average : std::trunc(average);
}

// 0 where the result must be exact: only a floating-point average over a number of ranks that is no
// power of two rounds, once per input and once per addition.
double tolerance(const Case& c) {
  const bool rounds = c.op == ncclAvg && isFloating(c.type) && (c.nRanks & (c.nRanks - 1)) != 0;
  return rounds ? 8.0 * 2 * c.nRanks * std::ldexp(1.0, -fractionBits(c.type)) : 0;
}

std::vector<char> inputBuffer(const Case& c, int rank, size_t count) {
  std::vector<char> buffer(count * typeBytes(c.type));
  for (size_t i = 0; i < count; ++i) store(c.type, &buffer, i, inputValue(c, rank, i));
  return buffer;
}

void expectValues(const Case& c, const std::vector<char>& buffer, size_t count, size_t firstIndex,
                  const char* what) {
  for (size_t i = 0; i < count; ++i) {
    const double got = load(c.type, buffer, i);
    const double wanted = reducedValue(c, firstIndex + i);
    if (!(std::fabs(got - wanted) <= tolerance(c))) {
      FAIL() << what << " type " << c.type << " op " << c.op << " count " << c.count << " ranks "
             << c.nRanks << ": element " << i << " is " << got << " instead of " << wanted;
    }
  }
}

// Runs one call on a stream of its own and waits for it.
void onStream(const std::function<ncclResult_t(cudaStream_t)>& call) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  EXPECT_NCCL(call(stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

void checkAllReduce(const Case& c, int rank, ncclComm_t comm) {
  std::vector<char> input = inputBuffer(c, rank, c.count);
  const std::vector<char> original = input;
  std::vector<char> output(input.size(), 0x55);
  onStream([&](cudaStream_t s) {
    return ncclAllReduce(input.data(), output.data(), c.count, c.type, c.op, comm, s);
  });
  expectValues(c, output, c.count, 0, "AllReduce");
  EXPECT_EQ(input, original);
  onStream([&](cudaStream_t s) {
    return ncclAllReduce(input.data(), input.data(), c.count, c.type, c.op, comm, s);
  });
  EXPECT_EQ(input, output) << "in place";
}

void checkReduceScatter(const Case& c, int rank, ncclComm_t comm) {
  std::vector<char> input = inputBuffer(c, rank, c.count * c.nRanks);
  const size_t nBytes = c.count * typeBytes(c.type);
  std::vector<char> output(nBytes, 0x55);
  onStream([&](cudaStream_t s) {
    return ncclReduceScatter(input.data(), output.data(), c.count, c.type, c.op, comm, s);
  });
  expectValues(c, output, c.count, c.count * rank, "ReduceScatter");
  char* place = input.data() + rank * nBytes;
  onStream([&](cudaStream_t s) {
    return ncclReduceScatter(input.data(), place, c.count, c.type, c.op, comm, s);
  });
  EXPECT_TRUE(std::equal(output.begin(), output.end(), place)) << "in place";
}

void checkAllGather(const Case& c, int rank, ncclComm_t comm) {
  const std::vector<char> mine = inputBuffer(c, rank, c.count);
  std::vector<char> wanted;
  for (int other = 0; other < c.nRanks; ++other) {
    const std::vector<char> theirs = inputBuffer(c, other, c.count);
    wanted.insert(wanted.end(), theirs.begin(), theirs.end());
  }
  std::vector<char> output(wanted.size(), 0x55);
  onStream([&](cudaStream_t s) {
    return ncclAllGather(mine.data(), output.data(), c.count, c.type, comm, s);
  });
  EXPECT_EQ(output, wanted);
  std::vector<char> inPlace(wanted.size(), 0x55);
  char* place = inPlace.data() + rank * mine.size();
  std::copy(mine.begin(), mine.end(), place);
  onStream([&](cudaStream_t s) {
    return ncclAllGather(place, inPlace.data(), c.count, c.type, comm, s);
  });
  EXPECT_EQ(inPlace, wanted) << "in place";
}

void checkBroadcast(const Case& c, int rank, int root, ncclComm_t comm) {
  const std::vector<char> wanted = inputBuffer(c, root, c.count);
  const std::vector<char> mine = inputBuffer(c, rank, c.count);
  std::vector<char> output(wanted.size(), 0x55);
  onStream([&](cudaStream_t s) {
    return ncclBroadcast(rank == root ? mine.data() : nullptr, output.data(), c.count, c.type, root,
                         comm, s);
  });
  EXPECT_EQ(output, wanted);
  std::vector<char> inPlace = mine;
  onStream(
      [&](cudaStream_t s) { return ncclBcast(inPlace.data(), c.count, c.type, root, comm, s); });
  EXPECT_EQ(inPlace, wanted) << "in place";
}

void checkReduce(const Case& c, int rank, int root, ncclComm_t comm) {
  const std::vector<char> input = inputBuffer(c, rank, c.count);
  std::vector<char> output(rank == root ? input.size() : 0, 0x55);
  onStream([&](cudaStream_t s) {
    return ncclReduce(input.data(), rank == root ? output.data() : nullptr, c.count, c.type, c.op,
                      root, comm, s);
  });
  if (rank == root) expectValues(c, output, c.count, 0, "Reduce");
}

void checkAll(const Case& c, int rank, ncclComm_t comm) {
  checkAllReduce(c, rank, comm);
  checkReduceScatter(c, rank, comm);
  checkReduce(c, rank, c.nRanks / 2, comm);
  if (c.op != ncclSum) return;
  checkAllGather(c, rank, comm);
  checkBroadcast(c, rank, 0, comm);
  checkBroadcast(c, rank, c.nRanks - 1, comm);
}

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
