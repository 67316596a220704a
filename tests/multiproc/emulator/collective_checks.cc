#include "tests/multiproc/emulator/collective_checks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace cinch::test {
namespace {

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

}  // namespace

void onStream(const std::function<ncclResult_t(cudaStream_t)>& call) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  EXPECT_NCCL(call(stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
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

}  // namespace cinch::test
