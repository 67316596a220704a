#include "tools/cinch/bench/test_values.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace cinch::bench {
namespace {

constexpr int kMaxBits = 24;      // more would show nothing new
constexpr int kGrowingRanks = 4;  // of a product: the others only change its sign

uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Those whose result grows with the number of ranks.
bool adds(ncclRedOp_t operation) {
  return operation == ncclSum || operation == ncclAvg;
}

}  // namespace

TestValues::TestValues(const ElementType& type, ncclRedOp_t operation, CallKind kind, int ranks)
    : type_(type), operation_(operation), kind_(kind), ranks_(ranks) {
  const int64_t most = int64_t{1} << (std::min(type.significantBits, kMaxBits) - 1);
  const bool grows = kind != CallKind::allGather && adds(operation);
  limit_ = std::max<int64_t>(1, (most - 1) / (grows ? ranks : 1));
  unit_ =
      type.isFloat ? 1.0 / static_cast<double>(std::bit_floor(static_cast<uint64_t>(limit_))) : 1;
  isSigned_ = type.isSigned && (type.isFloat || operation != ncclAvg);
}

double TestValues::valueOf(int rank, uint64_t round, uint64_t index) const {
  const uint64_t random =
      mix(mix(static_cast<uint64_t>(rank) << 40 ^ round * 0x9e3779b97f4a7c15u) + index);
  if (operation_ == ncclProd && kind_ != CallKind::allGather) {
    if (random & 1) return 1;
    return rank < kGrowingRanks ? 2 : (isSigned_ ? -1 : 1);
  }
  const auto span = static_cast<uint64_t>(isSigned_ ? 2 * limit_ + 1 : limit_ + 1);
  const auto drawn = static_cast<int64_t>((random >> 32) * span >> 32);
  return static_cast<double>(isSigned_ ? drawn - limit_ : drawn) * unit_;
}

void TestValues::send(int rank, uint64_t round, uint64_t first, std::span<double> values) const {
  for (size_t i = 0; i < values.size(); ++i) values[i] = valueOf(rank, round, first + i);
}

void TestValues::reduce(uint64_t round, uint64_t first, std::span<double> values) const {
  send(0, round, first, values);
  for (int rank = 1; rank < ranks_; ++rank) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = valueOf(rank, round, first + i);
      double& result = values[i];
      if (adds(operation_))
        result += value;
      else if (operation_ == ncclProd)
        result *= value;
      else
        result = operation_ == ncclMax ? std::max(result, value) : std::min(result, value);
    }
  }
  if (operation_ != ncclAvg) return;
  for (double& value : values) value = type_.isFloat ? value / ranks_ : std::trunc(value / ranks_);
}

void TestValues::expect(int rank, uint64_t round, uint64_t count, uint64_t first,
                        std::span<double> values) const {
  if (kind_ == CallKind::allReduce) return reduce(round, first, values);
  if (kind_ == CallKind::reduceScatter)
    return reduce(round, static_cast<uint64_t>(rank) * count + first, values);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t index = first + i;
    values[i] = valueOf(static_cast<int>(index / count), round, index % count);
  }
}

double TestValues::roundingBound() const {
  if (!type_.isFloat || kind_ == CallKind::allGather || !adds(operation_)) return 0;
  const bool isAverage = operation_ == ncclAvg;
  const bool averagesExactly = !isAverage || std::has_single_bit(static_cast<unsigned>(ranks_));
  const bool sumsExactly = limit_ * ranks_ <= int64_t{1}
                                                  << std::min(type_.significantBits, kMaxBits);
  if (averagesExactly && sumsExactly) return 0;
  return resultStep() * (ranks_ + 2);
}

double TestValues::largestResult() const {
  const bool grows = kind_ != CallKind::allGather && operation_ == ncclSum;
  return static_cast<double>(limit_) * unit_ * (grows ? ranks_ : 1);
}

double TestValues::resultStep() const {
  return largestResult() * std::ldexp(1.0, -type_.significantBits);
}

}  // namespace cinch::bench
