#include "tests/fuzz/expectation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cinch::fuzz {
namespace {

constexpr size_t kBlock = 128;
constexpr size_t kEnoughForStatistics = 1000;
constexpr double kMargin = 3;  // of the mean square over its expectation

// The exact output and the sum of the magnitudes that went into each value.
struct Exact {
  size_t first = 0;  // index in the bucket of the first value
  std::vector<double> value;
  std::vector<double> power;
};

double fold(ncclRedOp_t op, double a, double b) {
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

bool isSum(const Call& call) {
  return call.op == ncclSum || call.op == ncclAvg || call.op == ncclNumOps;
}

std::vector<double> inputOf(const CallFacts& facts, int member, size_t first, size_t count) {
  const Call& call = *facts.call;
  const int worldRank = facts.program->comms[call.comm].members[member];
  const size_t nBytes = bytesOf(call.type);
  Bytes bytes(count * nBytes);
  fillInput(facts.key, worldRank, call.type, first, count, bytes.data());
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = load(&bytes[i * nBytes], call.type);
  const double scalar = facts.scalars.empty() ? 1 : facts.scalars[member];
  for (double& value : values) value *= scalar;
  return values;
}

void divide(const Call& call, int nRanks, double& value) {
  value = isFloat(call.type) ? value / nRanks : std::trunc(value / nRanks);
}

Exact reduced(const CallFacts& facts, size_t first, size_t count) {
  const Call& call = *facts.call;
  const int nRanks = facts.program->comms[call.comm].size();
  Exact exact{first, inputOf(facts, 0, first, count), {}};
  for (const double value : exact.value) exact.power.push_back(std::fabs(value));
  for (int member = 1; member < nRanks; ++member) {
    const std::vector<double> input = inputOf(facts, member, first, count);
    for (size_t i = 0; i < count; ++i) {
      exact.value[i] = fold(call.op, exact.value[i], input[i]);
      exact.power[i] += std::fabs(input[i]);
    }
  }
  if (call.op == ncclAvg)
    for (size_t i = 0; i < count; ++i) {
      divide(call, nRanks, exact.value[i]);
      exact.power[i] /= nRanks;
    }
  return exact;
}

Exact moved(const CallFacts& facts) {
  const Call& call = *facts.call;
  if (call.kind != Kind::allGather) return {0, inputOf(facts, call.peer, 0, call.count), {}};
  Exact exact;
  for (int member = 0; member < facts.program->comms[call.comm].size(); ++member) {
    const std::vector<double> part = inputOf(facts, member, 0, call.count);
    exact.value.insert(exact.value.end(), part.begin(), part.end());
  }
  return exact;
}

Exact exactOf(const CallFacts& facts) {
  const Call& call = *facts.call;
  if (!reduces(call.kind)) return moved(facts);
  const int rank = facts.program->comms[call.comm].rankOf(facts.worldRank);
  const size_t first = call.kind == Kind::reduceScatter ? rank * call.count : 0;
  return reduced(facts, first, call.count);
}

// What plain NCCL may lose of one value: a rounding per rank, and that of the factor.
double roundingBound(const CallFacts& facts, double power) {
  const Call& call = *facts.call;
  const int nRanks = facts.program->comms[call.comm].size();
  if (!reduces(call.kind) || !isFloat(call.type)) return 0;
  if (call.op == ncclMax || call.op == ncclMin) return 0;
  const double tiny = call.type == ncclFloat16 ? 0x1p-24 : 0x1p-126;
  return (nRanks + 2) * (roundingOf(call.type) * power + tiny);
}

// The codec, as docs/wire-format.md describes it, on blocks whose values are within +-peak.
struct CodecError {
  double worst = 0;       // of any value
  double meanSquare = 0;  // on average
};

// Half a step, and what rounding the pair to bf16 cuts off. With feedback p = x + g e, where g |e|
// never exceeds the error of coding such a p.
CodecError errorOfUniform(const Tolerance& tolerance, double peak) {
  const double levels = (1 << tolerance.bits) - 1;
  const double share = 1.01 / levels + 3.0 / 256;
  const double step = 2 * peak / levels, cut = peak / 256;
  return {tolerance.feedback ? 2 * peak * share / (1 - share) : peak * share,
          (tolerance.feedback ? 2.5 : 1) * step * step / 12 + cut * cut};
}

// An error anywhere in a rotated block comes to all of its values. At three bits a Gaussian loses
// .035 of its power, and all segments together lose no more where they have different bits; a
// single block may have two bits, and be no Gaussian. The power is at most a fifth of the squared
// peak, for the values that fillInput() makes and for their sums. Low-gain feedback adds a little.
CodecError errorOfRotated(double peak) {
  const double power = peak * peak / 5, growth = 1.25;
  return {growth * std::sqrt(.3 * kBlock * power), growth * .04 * power};
}

CodecError errorOf(const Tolerance& tolerance, double peak) {
  return tolerance.rotated ? errorOfRotated(peak) : errorOfUniform(tolerance, peak);
}

bool mayBeCompressed(const CallFacts& facts, const Tolerance& tolerance) {
  const Call& call = *facts.call;
  const bool kind = call.kind == Kind::allReduce || call.kind == Kind::reduceScatter;
  return tolerance.bits > 0 && kind && isSum(call) && isFloat(call.type) &&
         call.type != ncclFloat64 && facts.program->comms[call.comm].size() > 1;
}

// Greatest |exact| of the block around each value and of its neighbours, whatever their borders.
std::vector<double> peaksOf(const std::vector<double>& values) {
  std::vector<double> block(values.size() / kBlock + 1);
  for (size_t i = 0; i < values.size(); ++i)
    block[i / kBlock] = std::max(block[i / kBlock], std::fabs(values[i]));
  std::vector<double> peaks(block.size());
  for (size_t b = 0; b < block.size(); ++b) {
    peaks[b] = std::max(b > 0 ? block[b - 1] : 0, block[b]);
    if (b + 1 < block.size()) peaks[b] = std::max(peaks[b], block[b + 1]);
  }
  return peaks;
}

// What the two stages of a compressed sum may lose. ReduceScatter has the first one only, and so
// have two ranks, who add up both codes.
CodecError codecBound(const CallFacts& facts, const Tolerance& tolerance, size_t index,
                      double sumPeak) {
  const Call& call = *facts.call;
  const int nRanks = facts.program->comms[call.comm].size();
  double factor = call.op == ncclAvg ? 1.0 / nRanks : 1;
  for (const double scalar : facts.scalars) factor = std::max(factor, std::fabs(scalar));
  const double peak = factor * envelope(facts.key.seed, index);
  const CodecError one = errorOf(tolerance, peak);
  if (nRanks == 2 && call.kind == Kind::allReduce) return {2 * one.worst, 2 * one.meanSquare};
  CodecError allowed{(nRanks - 1) * one.worst, (nRanks - 1) * one.meanSquare};
  if (call.kind == Kind::reduceScatter) return allowed;
  // The owner's residual stems from earlier sums, whose peak may have been any.
  const double second = tolerance.feedback ? nRanks * peak : sumPeak;
  const double spread = 3 * std::sqrt(allowed.meanSquare);
  allowed.worst += errorOf(tolerance, second + allowed.worst).worst;
  allowed.meanSquare += errorOf(tolerance, sumPeak + spread).meanSquare;
  return allowed;
}

bool isTainted(const Call& call, size_t index) {
  if (call.special < 0) return false;
  const auto special = static_cast<size_t>(call.special);
  return index + kBlock > special && index < special + kBlock;
}

// Sums of the errors, and of what they may be.
class Tally {
 public:
  void add(double error, const CodecError& allowed) {
    if (error > 0) worst_ = std::max(worst_, error / allowed.worst);
    if (!(error <= std::numeric_limits<double>::max())) worst_ = INFINITY;
    error_ += error * error;
    allowed_ += allowed.meanSquare;
    ++count_;
  }
  Deviation result() const {
    const bool enough = count_ >= kEnoughForStatistics && allowed_ > 0;
    return {worst_, enough ? error_ / (kMargin * allowed_) : 0};
  }

 private:
  double worst_ = 0, error_ = 0, allowed_ = 0;
  size_t count_ = 0;
};

}  // namespace

size_t outputCount(const Program& program, const Call& call, int worldRank) {
  const Comm& comm = program.comms[call.comm];
  if (call.kind == Kind::send) return 0;
  if (call.kind == Kind::reduce && comm.rankOf(worldRank) != call.peer) return 0;
  return call.kind == Kind::allGather ? call.count * comm.members.size() : call.count;
}

size_t inputCount(const Program& program, const Call& call, int worldRank) {
  const Comm& comm = program.comms[call.comm];
  const bool rooted = call.kind == Kind::broadcast || call.kind == Kind::bcast;
  if (call.kind == Kind::receive) return 0;
  if (rooted && comm.rankOf(worldRank) != call.peer) return 0;
  return call.kind == Kind::reduceScatter ? call.count * comm.members.size() : call.count;
}

Deviation compare(const CallFacts& facts, const Tolerance& tolerance, const Bytes& output) {
  if (output.empty()) return {};
  const Call& call = *facts.call;
  const Exact exact = exactOf(facts);
  const std::vector<double> peaks = peaksOf(exact.value);
  const bool coded = mayBeCompressed(facts, tolerance);
  Tally tally;
  for (size_t i = 0; i < exact.value.size(); ++i) {
    const size_t index = exact.first + i;
    if (isTainted(call, index)) continue;
    const double power = exact.power.empty() ? 0 : exact.power[i];
    CodecError allowed;
    if (coded) allowed = codecBound(facts, tolerance, index, peaks[i / kBlock]);
    const double rounding = roundingBound(facts, power);
    allowed.worst += rounding + 2 * roundingOf(call.type) * allowed.worst;
    allowed.meanSquare += rounding * rounding;
    const double got = load(&output[i * bytesOf(call.type)], call.type);
    tally.add(std::fabs(got - exact.value[i]), allowed);
  }
  return tally.result();
}

}  // namespace cinch::fuzz
