// What the ranks find out about the reductions of one learned period before they compress any of
// them: whether these are gradients (policy/evidence.h).
//
// Each site of the period is measured on kCalls calls that pass: places of its buffers are copied
// before and after the call, on the caller's own stream. When all have arrived, each rank votes on
// each site; rank 0 sends what it found before its vote. All ranks await the outcome at the next
// call of the site.
//
// Sites and their calls are the same on all ranks, evidence is each rank's own. One thread at a
// time makes calls; what the background thread reads is behind a mutex.
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <vector>

#include "interpose/agree/call_gate.h"
#include "interpose/comm/comm_resources.h"
#include "interpose/comm/value_sample.h"
#include "interpose/policy/evidence.h"

namespace cinch {

class StepExam {
 public:
  static constexpr uint32_t kCalls = kMeasuredCalls;
  static constexpr uint32_t kAttempts = kMeasurements;
  // Host memory of one exam, for 128 Ki values before and after calls.
  static constexpr size_t kMaxBytes = size_t{1} << 20;

  enum class Phase : uint8_t {
    measuring,  // fewer than kCalls calls have been made
    voting,     // the outcome is to be awaited at the next call
    decided,
  };

  StepExam(uint32_t period, TrainingStep step, const CommResources& resources, int rank,
           int nRanks);
  ~StepExam();
  StepExam(const StepExam&) = delete;

  // Sequence::learned() of the period.
  const uint32_t period;
  // Of the sequence, in which it is examined.
  uint32_t epoch = 0;

  // The period goes on in another epoch, where it is examined anew. The last result is kept, to be
  // compared with the next one: one call of each site is enough.
  void reopen(uint32_t nextEpoch);
  // The call at that position of the period is being made. True where it contradicts the outcome:
  // its site was found to be a gradient when other threads made its calls.
  bool note(uint32_t position, Caller caller, const CallerCounts& ever);

  Phase phase(uint32_t site) const { return sites_[site].phase; }
  uint64_t countOf(uint32_t site) const { return evidence_.reductionOf(site).signature.count; }
  uint32_t attempt(uint32_t site) const { return sites_[site].attempt; }
  Evidence outcome(uint32_t site) const { return sites_[site].outcome; }
  void decide(uint32_t site, Evidence outcome);
  // Of a site that was found to be a gradient: through which each of its calls goes, so that the
  // ranks stop compressing it before the same one. Null in a replay.
  std::shared_ptr<CallGate> gate(uint32_t site) const { return sites_[site].gate; }
  void open(uint32_t site, std::shared_ptr<CallGate> gate) { sites_[site].gate = std::move(gate); }
  // Once more, from this call on.
  void measureAgain(uint32_t site);

  // Around a call of a site that is being measured. `endCall` says that it was made; then a call
  // has been measured, however many of one site a group holds.
  void beginCall(uint32_t site, const DeviceValues& input, void* stream);
  void endCall(uint32_t site, const DeviceValues& output, void* stream);
  // Calls that were begun were not made.
  void takeBack();
  // The same around the exact reduction beside a call of a site that is compressed: the oldest
  // sample makes room, where it has arrived.
  void beginAudit(uint32_t site, const DeviceValues& input, void* stream);
  void endAudit(uint32_t site, const DeviceValues& output, void* stream);

  bool mustVote(uint32_t site) const { return sites_[site].mustVote; }
  // The sites that this rank has to vote on now: all are measured, or `isUrgent`. Each once.
  std::vector<uint32_t> takeUnvoted(bool isUrgent);
  // Whether what was copied is there. Any thread.
  bool hasArrived() const;
  // What this rank knows of a site by now, from what has arrived. Any thread.
  Evidence evidence(uint32_t site, const ProcessFacts& process);
  // What it voted. Any thread.
  void noteVote(uint32_t site, Evidence voted, bool yes);
  bool hasVotedYes(uint32_t site) const;
  Evidence voted(uint32_t site) const;

 private:
  struct Sample {
    std::optional<ncclDataType_t> input, output;  // what was copied
    Event arrived;
    bool isClosed = false;
  };
  struct Site {
    Phase phase = Phase::measuring;
    uint32_t attempt = 0;
    uint32_t nCalls = 0;
    uint32_t oldest = 0;  // of the samples, which are in a ring
    bool isOpen = false;  // a call has begun and not ended
    bool mustVote = false;
    Evidence outcome = Evidence::notTheModel;
    Evidence voted = Evidence::notTheModel;
    bool hasVotedYes = false;
    std::shared_ptr<CallGate> gate;
    std::array<Sample, kCalls> samples;
  };
  // Where the values of a site are taken from.
  struct Runs {
    uint64_t length = 0;
    uint32_t n = 0;
  };

  uint32_t sampleOf(uint32_t site, uint32_t call) const {
    return (sites_[site].oldest + call) % kCalls;
  }
  void begin(uint32_t site, uint32_t sample, const DeviceValues& input, void* stream);
  void close(uint32_t site, uint32_t sample, const DeviceValues& output, void* stream);
  Runs runsOf(uint64_t count) const;
  char* memoryOf(uint32_t site, uint32_t sample, bool isOutput) const;
  std::optional<ncclDataType_t> copy(const DeviceValues& values, char* to, void* stream) const;
  bool allocate();
  std::vector<float> read(uint32_t site, uint32_t call, bool isOutput) const;
  ValueVerdict valuesOf(uint32_t site) const;

  const DeviceTable& device_;
  const int cudaDevice_, rank_, nRanks_;
  mutable std::mutex mutex_;
  StepEvidence evidence_;
  std::vector<Site> sites_;
  Buffer memory_;
  bool hasNoMemory_ = false;
};

}  // namespace cinch
