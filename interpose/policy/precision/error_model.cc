#include "interpose/policy/precision/error_model.h"

namespace cinch {
namespace {

using wire::kBlockElems;

// Two bits to nearest span a part of the range: their error over that of all of it.
constexpr double kNarrowedShare = 0.72;

// Errors are spread evenly over a step of range / (2^bits - 1).
double uniformError(uint32_t bits, Rounding rounding, const SegmentStatistics& statistics) {
  const uint64_t nBlocks = (statistics.count + kBlockElems - 1) / kBlockElems;
  if (nBlocks == 0) return 0;
  const auto steps = static_cast<double>((1u << bits) - 1);
  const double valuesPerBlock =
      static_cast<double>(statistics.count) / static_cast<double>(nBlocks);
  const double nearest = valuesPerBlock * statistics.squaredRanges / (12 * steps * steps);
  if (rounding == Rounding::stochastic) return 2 * nearest;
  return bits == 2 ? kNarrowedShare * nearest : nearest;
}

// Whatever the values, a rotation makes them nearly Gaussian: the error is a share of their power.
std::optional<double> rotatedShare(uint32_t bits) {
  constexpr double kShares[] = {0.119, 0.0343, 0.0094};  // of 2, 3 and 4 bits
  return bits >= 2 && bits <= 4 ? std::optional(kShares[bits - 2]) : std::nullopt;
}

constexpr double kBfloat16Share = 2.76e-6;

}  // namespace

std::optional<double> predictError(const codec::CodecInfo& codec, Rounding rounding,
                                   const SegmentStatistics& statistics) {
  const uint32_t bits = codec.format.bits;
  if (codec.isRotated) {
    const auto share = rotatedShare(bits);
    return share ? std::optional(*share * statistics.power) : std::nullopt;
  }
  if (codec.format.id == codec::formatOf("fp32").id) return 0.0;
  if (codec.format.id == codec::formatOf("bf16").id) return kBfloat16Share * statistics.power;
  const bool isUniform = codec.format.id == codecId(CodecFamily::uniform, bits);
  return isUniform ? std::optional(uniformError(bits, rounding, statistics)) : std::nullopt;
}

}  // namespace cinch
