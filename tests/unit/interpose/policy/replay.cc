#include "tests/unit/interpose/policy/replay.h"

#include "interpose/policy/policy.h"

namespace cinch::test {
namespace {

// What a user has who sets nothing.
Params settings() {
  const char* const nothing[] = {nullptr};
  return readParams(nothing).params;
}

class Replayer {
 public:
  explicit Replayer(int nRanks) : facts_{.nRanks = nRanks, .agreed = true, .severalHosts = true} {}

  void call(const TraceCall& call) {
    const bool wasLocked = found_.lockedStep >= 0;
    const auto seen = signatures_.observe(call.signature);
    const bool large = isLarge(params_, facts_, call.signature);
    const Place place = sequence_.observe(call.signature, seen->index, large);
    sequence_.commit();
    const bool compress =
        decide(params_, facts_, call.signature, {seen->before, place}) == Reason::none;
    count(large && call.isGradient(), compress && call.isGradient(), wasLocked);
    found_.wrongCalls += compress && !call.isGradient();
    found_.nSteps = call.step + 1;
    if (found_.lockedStep < 0 && sequence_.period() > 0) found_.lockedStep = call.step;
    if (compress) feedBack(call, place);
  }

  const Replay& found() const { return found_; }

 private:
  void count(bool isGradient, bool isCompressed, bool wasLocked) {
    found_.gradients += isGradient;
    found_.compressed += isCompressed;
    found_.gradientsSinceLocked += wasLocked && isGradient;
    found_.compressedSinceLocked += wasLocked && isCompressed;
  }

  // As CommState::slotOf() does: a residual belongs to a signature, an epoch and a slot.
  void feedBack(const TraceCall& call, const Place& place) {
    const Coding coding = codingOf(params_, call.signature.kind, place, 0);
    if (coding.rule.gain == 0) return;
    ++found_.withFeedback;
    const auto key = std::tuple(describe(call.signature), place.epoch, place.slot);
    found_.wrongSlots += contents_.try_emplace(key, call.truth).first->second != call.truth;
  }

  const Params params_ = settings();
  const CommFacts facts_;
  SignatureTable signatures_;
  Sequence sequence_;
  std::map<std::tuple<std::string, uint32_t, uint32_t>, std::string> contents_;
  Replay found_;
};

}  // namespace

Replay replay(const Trace& trace, int comm) {
  Replayer replayer(trace.nRanks.at(static_cast<size_t>(comm)));
  for (const TraceCall& call : trace.calls)
    if (call.comm == comm) replayer.call(call);
  return replayer.found();
}

}  // namespace cinch::test
