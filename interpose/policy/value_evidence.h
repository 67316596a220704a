// What the values of a reduction say against its being one of gradients. They never say anything
// for it: gradients of different ranks may be as alike as weights that have drifted apart.
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
  gatheredBySums,  // each part comes from one rank, and is zero on the others
  accumulating,    // a result is what the next one goes on from
};

// Which of them are asked for: all, but where a test finds out what each is there for.
struct Vetoes {
  bool alike = true, integers = true, gatheredBySums = true, accumulating = true;
};

// Of calls of one site in successive periods, in order, among `nRanks` ranks. Calls whose places
// are not those of the last one say nothing.
ValueVerdict judgeValues(std::span<const SampledCall> calls, const SampledRuns& runs, int nRanks,
                         const Vetoes& vetoes = {});

// How many calls of a site pass to be measured. Two successive results can be compared, but only
// three show whether they go on from each other.
inline constexpr uint32_t kMeasuredCalls = 3;
// How often a site is measured where nearly all of its values were zero.
inline constexpr uint32_t kMeasurements = 3;

// At this cosine values are alike. The gradients of two ranks whose noise is a tenth of their mean
// come to 0.9975, those of successive steps to 0.995; weights that changed by 4 % to 0.9992.
inline constexpr double kAlike = 0.999;

// Two successive changes of the result correlate so much at least where results go on from each
// other: the weights of a step are those of the last one and what was learned since, so that their
// changes have nothing to do with each other (0), or go on in one direction (1). The noise of
// gradients is new in each step, and what it adds to one change it takes from the next one: -0.5,
// and more where their mean changes by more than the noise that is left of it.
//
// Local training that is so long that it forgets where it began is not seen so: successive averages
// are independent of each other then, as gradients are.
inline constexpr double kAccumulating = -0.05;

}  // namespace cinch
