#include "interpose/policy/precision/precision.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <optional>

#include "interpose/policy/precision/knapsack.h"

namespace cinch {
namespace {

// Sums of as many errors as there are segments stay below kMaxKnapsackTotal.
constexpr int kErrorBits = 46;
static_assert((uint64_t{kMaxSegments} << (kErrorBits + 1)) < kMaxKnapsackTotal);

constexpr double kMaxError = 1e290;  // of a segment; sums are finite

bool isUsable(double error) {
  return error >= 0 && error <= kMaxError;  // false for a NaN
}

// An error as an integer, so that sums of them depend on nothing but their terms.
class ErrorUnit {
 public:
  // `scale`: an error that is to be counted in fine steps.
  explicit ErrorUnit(double scale) : unit_(std::max(std::ldexp(scale, -kErrorBits), DBL_MIN)) {}

  int64_t roundUp(double error) const {
    // Twice the scale is too much, or the largest there is: it need not be told from more.
    return static_cast<int64_t>(std::min(std::ceil(error / unit_), std::ldexp(2.0, kErrorBits)));
  }
  int64_t roundDown(double error) const {
    return static_cast<int64_t>(std::min(error / unit_, std::ldexp(2.0, kErrorBits)));
  }
  double toError(int64_t units) const { return static_cast<double>(units) * unit_; }

 private:
  double unit_;
};

// A problem, with what its rules say of single segments.
class RuledSegments {
 public:
  explicit RuledSegments(const PrecisionProblem& problem) : problem_(problem) {}

  size_t size() const { return problem_.segments.size(); }
  double errorOf(size_t segment, uint32_t candidate) const {
    return problem_.errors[segment * problem_.candidates.size() + candidate];
  }
  uint64_t bytesOf(size_t segment, uint32_t candidate) const {
    return problem_.segments[segment].nTiles * problem_.candidates[candidate].tileBytes();
  }

  // The candidate of a segment that has no choice.
  std::optional<uint32_t> fixed(size_t segment) const {
    if (problem_.segments[segment].keptRaw) return problem_.raw;
    if (!isUsable(errorOf(segment, problem_.standard))) return problem_.standard;
    return std::nullopt;
  }

  // Those that a segment may have.
  std::vector<uint8_t> allowed(size_t segment) const {
    if (const auto only = fixed(segment)) return {static_cast<uint8_t>(*only)};
    std::vector<uint8_t> allowed;
    for (uint32_t i = 0; i < problem_.candidates.size(); ++i)
      if (isUsable(errorOf(segment, i))) allowed.push_back(static_cast<uint8_t>(i));
    return allowed;
  }

  // What counts of the error.
  double countedError(size_t segment, uint32_t candidate) const {
    return fixed(segment) ? 0.0 : errorOf(segment, candidate);
  }

  double standardError() const {
    double sum = 0;
    for (size_t i = 0; i < size(); ++i) sum += countedError(i, problem_.standard);
    return sum;
  }

  double largestError() const {
    double largest = 0;
    for (size_t i = 0; i < size(); ++i)
      for (uint8_t candidate : allowed(i)) largest = std::max(largest, countedError(i, candidate));
    return largest;
  }

  // Calls makeOption(segment, candidate) for all that are allowed.
  template <class MakeOption>
  std::vector<KnapsackGroup> groups(const MakeOption& makeOption) const {
    std::vector<KnapsackGroup> groups(size());
    for (size_t i = 0; i < size(); ++i)
      for (uint8_t candidate : allowed(i)) groups[i].push_back(makeOption(i, candidate));
    return groups;
  }

  PrecisionChoice choiceOf(const KnapsackSolution& solution) const {
    PrecisionChoice choice;
    choice.isWithin = solution.fits;
    for (size_t i = 0; i < size(); ++i) {
      const uint8_t candidate = allowed(i)[solution.chosen[i]];
      choice.candidates.push_back(candidate);
      choice.nBytes += bytesOf(i, candidate);
      choice.error += countedError(i, candidate);
    }
    return choice;
  }

 private:
  const PrecisionProblem& problem_;
};

PrecisionChoice solveForBytes(const RuledSegments& segments, const ErrorUnit& unit,
                              int64_t capacity) {
  const auto groups = segments.groups([&](size_t segment, uint8_t candidate) {
    return KnapsackOption{static_cast<int64_t>(segments.bytesOf(segment, candidate)),
                          unit.roundUp(segments.countedError(segment, candidate))};
  });
  const KnapsackSolution solution = solveKnapsack(groups, capacity);
  PrecisionChoice choice = segments.choiceOf(solution);
  choice.gap = static_cast<double>(solution.gap);
  return choice;
}

PrecisionChoice solveForError(const RuledSegments& segments, int64_t byteBudget) {
  const ErrorUnit unit(segments.largestError());
  const auto groups = segments.groups([&](size_t segment, uint8_t candidate) {
    return KnapsackOption{unit.roundUp(segments.countedError(segment, candidate)),
                          static_cast<int64_t>(segments.bytesOf(segment, candidate))};
  });
  const KnapsackSolution solution = solveKnapsack(groups, byteBudget);
  PrecisionChoice choice = segments.choiceOf(solution);
  choice.gap = unit.toError(solution.gap);
  return choice;
}

}  // namespace

PrecisionChoice fewestBytes(const PrecisionProblem& problem) {
  const RuledSegments segments(problem);
  const ErrorUnit unit(segments.standardError());
  int64_t capacity = 0;
  for (size_t i = 0; i < segments.size(); ++i)
    capacity += unit.roundUp(segments.countedError(i, problem.standard));
  return solveForBytes(segments, unit, capacity);
}

PrecisionChoice fewestBytes(const PrecisionProblem& problem, double errorBudget) {
  const RuledSegments segments(problem);
  const double budget = errorBudget >= 0 ? std::min(errorBudget, kMaxError * kMaxSegments) : 0.0;
  const ErrorUnit unit(budget);
  PrecisionChoice choice = solveForBytes(segments, unit, unit.roundDown(budget));
  if (choice.isWithin) return choice;
  // Errors far above the budget look equal in its units.
  choice = solveForError(segments, kMaxKnapsackTotal);
  choice.isWithin = false;
  return choice;
}

PrecisionChoice leastError(const PrecisionProblem& problem, uint64_t byteBudget) {
  const auto capacity = std::min<uint64_t>(byteBudget, uint64_t{kMaxKnapsackTotal});
  return solveForError(RuledSegments(problem), static_cast<int64_t>(capacity));
}

}  // namespace cinch
