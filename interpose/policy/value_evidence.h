// What the values of a reduction say against its being one of gradients, on one rank.
//
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cinch {

// Of one call: what this rank gave and what came out, at the same places of the buffer.
struct SampledCall {
  std::vector<float> input, output;
};

// Places come in runs of neighbours of this length, but for the last one.
struct SampledRuns {
  uint64_t runLength = 0;
};

enum class ValueVerdict : uint8_t {
  tooFew,          // values that are not zero
  unsuspicious,    // nothing is known against it
  alike,           // the ranks' values, or those of successive steps: weights, or other state
  integers,        // counts
  ofOneSign,       // squares, magnitudes, variances
  gatheredBySums,  // each part comes from one rank, and is zero on the others
  steady,          // ranks and steps have much in common, as weights do, or it grows fast
};

// Which of them are asked for: all, but where a test finds out what each is there for.
struct Vetoes {
  bool alike = true, integers = true, ofOneSign = true, gatheredBySums = true, steady = true;
};

// Of calls of one site in successive periods, in order, among `nRanks` ranks. Calls whose places
// are not those of the last one say nothing.
ValueVerdict judgeValues(std::span<const SampledCall> calls, const SampledRuns& runs, int nRanks,
                         const Vetoes& vetoes = {});

// What successive results of a gather say of what is gathered.
enum class GatherVerdict : uint8_t {
  unknown,
  alike,      // as weights are
  different,  // as features of batches are
};
GatherVerdict judgeGather(std::span<const SampledCall> calls);

// How many calls of a site pass to be measured: successive results are compared.
inline constexpr uint32_t kMeasuredCalls = 2;

// At this cosine values are alike. The gradients of two ranks whose noise is a tenth of their mean
// come to 0.9975, those of successive steps to 0.995; weights that changed by 4 % to 0.9992.
inline constexpr double kAlike = 0.999;

// Below this they are different: weights that a step changes by half of what they are come to it.
inline constexpr double kDifferent = 0.9;

// Where only values can tell gradients from averaged weights, the noise of a rank's values is so
// many times their mean at least. Weights are mean for the most part: of 7,000 runs of local
// training two reached 2, on the verge of instability, and only such came to 3 as had run away and
// were worse than untrained. Of gradients the square of this ratio is the gradient noise scale over
// the rank's batch (McCandlish et al., "An Empirical Model of Large-Batch Training", 2018), which
// grows as training goes on.
inline constexpr double kLeastNoise = 3;

// And the power of an average is not so many times that of the one before. Weights whose training
// runs away are noise for the most part, too, but they grow: of 4,500 runs of local training nine
// had that much noise, and eight of these grew by 1.6 and more from one average to the next.
inline constexpr double kMostGrowth = 1.5;

}  // namespace cinch
