#include "tests/unit/interpose/policy/replay.h"

#include <random>

#include "interpose/policy/policy.h"
#include "tests/unit/interpose/policy/job_model.h"

namespace cinch::test {
namespace {

// Stands for so many values: a verdict needs more than were recorded.
constexpr size_t kValues = 1024;

// What was not recorded, and so vetoes nothing.
std::vector<float> noise(std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(kValues);
  for (float& value : values) value = normal(random);
  return values;
}

// The 16 values of a row are evenly spaced and stand for thousands: they are repeated. All of them
// are one run, since none of them has its neighbours to show that a tile is zero.
std::vector<float> repeated(const std::vector<float>& recorded) {
  std::vector<float> values(kValues);
  for (size_t i = 0; i < kValues; ++i) values[i] = recorded[i % recorded.size()];
  return values;
}

bool hasValues(const std::vector<float>& recorded) {
  return std::ranges::any_of(recorded, [](float value) { return value != 0; });
}

class Replayer {
 public:
  explicit Replayer(int nRanks)
      : facts_{.nRanks = nRanks, .agreed = true, .severalHosts = true},
        nRanks_(static_cast<size_t>(nRanks)),
        job_({.nRanks = nRanks,
              .params = params_,
              .vetoes = {.ofOneSign = false, .steady = false},  // 16 values are too few for these
              .runs = {kValues}}) {}

  // `values`: null where none were recorded.
  void call(const TraceCall& call, const SampledCall* values) {
    const bool large = isLarge(params_, facts_, call.signature);
    const bool compress = job_.call(call.signature, callers(call),
                                    [&](size_t rank) { return sampleOf(rank, values); });
    count(call.step, large && call.isGradient(), compress && call.isGradient());
    found_.wrongCalls += compress && !call.isGradient();
    found_.nSteps = call.step + 1;
    if (found_.lockedStep < 0 && job_.sequence().period() > 0) found_.lockedStep = call.step;
    if (compress) feedBack(call, job_.place());
  }

  void callElsewhere(const TraceCall& call) { job_.noteElsewhere(call.signature, callers(call)); }

  const Replay& found() const { return found_; }

 private:
  void count(int step, bool isGradient, bool isCompressed) {
    constexpr int kTwelfth = 11;
    found_.gradients += isGradient;
    found_.compressed += isCompressed;
    found_.lateGradients += step >= kTwelfth && isGradient;
    found_.lateCompressed += step >= kTwelfth && isCompressed;
  }

  // Rank 0's, and the others do the same.
  std::vector<Caller> callers(const TraceCall& call) const {
    return std::vector(nRanks_, call.thread == "autograd" ? Caller::autograd : Caller::other);
  }

  // Nearly always there are thousands of values that are not zero where 16 are.
  SampledCall sampleOf(size_t rank, const SampledCall* recorded) {
    if (rank != 0 || recorded == nullptr || !hasValues(recorded->output))
      return {noise(random_), noise(random_)};
    return {repeated(recorded->input), repeated(recorded->output)};
  }

  // As CommState::slotOf() does: a residual belongs to a signature, an epoch and a slot.
  void feedBack(const TraceCall& call, const Place& place) {
    const Coding coding = codingOf(params_, call.signature.kind, place, 0);
    if (coding.rule.gain == 0) return;
    ++found_.withFeedback;
    const auto key = std::tuple(describe(call.signature), place.epoch, place.slot);
    found_.wrongSlots += contents_.try_emplace(key, call.truth).first->second != call.truth;
  }

  const Params params_ = defaultSettings();
  const CommFacts facts_;
  const size_t nRanks_;
  std::mt19937 random_;
  JobModel job_;
  std::map<std::tuple<std::string, uint32_t, uint32_t>, std::string> contents_;
  Replay found_;
};

}  // namespace

Replay replay(const Trace& trace, int comm) {
  Replayer replayer(trace.nRanks.at(static_cast<size_t>(comm)));
  for (size_t i = 0; i < trace.calls.size(); ++i) {
    const auto values = trace.values.find(i);
    if (trace.calls[i].comm == comm)
      replayer.call(trace.calls[i], values == trace.values.end() ? nullptr : &values->second);
    else
      replayer.callElsewhere(trace.calls[i]);
  }
  return replayer.found();
}

}  // namespace cinch::test
