// Layer-adaptive precision: a codec for every segment of a bucket. Pure.
//
// One rank solves and the others receive the result as bytes (precision_plan.h): errors are
// floating-point sums, which ranks could see differently.
//
// Plain squared errors take bits from layers of little power, whatever these mean to the optimiser.
// Candidates that begin at h2 keep each of them within an error of an eighth of its power;
// errors divided by the power of their layer weigh all layers alike. bench/adaptive measures both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/wire/wire_format.h"

namespace cinch {

inline constexpr uint32_t kMaxSegments = 4096;

// A run of whole tiles of a bucket.
struct PrecisionSegment {
  uint64_t nTiles = 0;
  bool keptRaw = false;  // a bias or the like: not to be compressed
};

struct PrecisionProblem {
  std::span<const PrecisionSegment> segments;     // kMaxSegments at most
  std::span<const wire::CodecFormat> candidates;  // 255 at most
  uint32_t standard = 0;                          // the candidate that all would have otherwise
  uint32_t raw = 0;                               // the one of segments that are kept raw
  std::span<const double> errors;  // summed squared error by segment, then by candidate
};

// A candidate is out of question for a segment where its error is not a number from 0 to 1e290, and
// where that is the standard's, the segment has the standard whatever the others say. Such segments
// count with their bytes, but not with their error, and so do those that are kept raw.
struct PrecisionChoice {
  std::vector<uint8_t> candidates;  // by segment
  uint64_t nBytes = 0;              // of all tiles
  double error = 0;
  double gap = 0;  // how much better, at most, another choice could be, in the unit of what is
                   // least; 0: this one is optimal
  bool isWithin = true;  // false: no choice is within the budget, and this is the closest
};

// The fewest bytes with no more error than the standard for all. Where several choices have as few,
// it is always the same one, though not always that of the least error. Errors are counted in steps
// of 2^-46 of the budget, rounded up. Takes one or two milliseconds for 500 segments, and some tens
// at most whatever the errors: where that does not suffice, `gap` says so.
PrecisionChoice fewestBytes(const PrecisionProblem& problem);
PrecisionChoice fewestBytes(const PrecisionProblem& problem, double errorBudget);

// The least error within a number of bytes, to 2^-46 of the largest error of a segment.
PrecisionChoice leastError(const PrecisionProblem& problem, uint64_t byteBudget);

}  // namespace cinch
