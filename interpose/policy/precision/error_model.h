// What a codec does to a segment, from statistics that cost one pass: for candidates whose error
// was not measured. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/codec/registry.h"

namespace cinch {

// Sums over a segment, in blocks of 128 values; the last one may be partial.
struct SegmentStatistics {
  uint64_t count = 0;
  double power = 0;          // of the squared values
  double squaredRanges = 0;  // of the blocks' squared (largest - smallest)
};

// The summed squared error, without feedback. Null for codecs whose error these statistics do not
// tell: those that clip, signs, and floats with scales.
//
// Predicted / measured, on whole gradients of examples/train_lm after 20 and 300 steps, in segments
// of 64 Ki values: median, and from the least to the greatest of all segments.
//   q2    1.00 to 1.01, 0.77 to 1.06      h2   1.00 to 1.01, 0.98 to 1.08
//   q3    1.02,         0.91 to 1.13      h3   1.01 to 1.02, 0.98 to 1.08
//   q4    1.02,         0.93 to 1.10      h4   1.00 to 1.01, 0.97 to 1.08
//   q5,q6 1.01 to 1.02, 0.86 to 1.16      bf16 1.00,         0.86 to 1.07
//   q8    1.00,         0.91 to 1.15
// In segments of 4 Ki values of tests/data, where many values are zero, q2 to q8 go from 0.54 to
// 3.5, h2 to h4 from 0.84 to 1.21.
std::optional<double> predictError(const codec::CodecInfo& codec, Rounding rounding,
                                   const SegmentStatistics& statistics);

}  // namespace cinch
