// What the ranks find out about the reductions of one learned period before they compress any of
// them: whether these are gradients (policy/evidence.h).
//
// Each site of the period, a reduction or a gather that says what reductions are of, is measured on
// kMeasuredCalls calls that pass. When they have arrived, each rank votes on each site; rank 0
// sends what it found before its vote. All ranks await the outcome at a later call of the site than
// the one that casts the votes, since one thread may drive several ranks in turn.
//
//   measuring   some of these calls have not been made
//   voting      the votes are to be cast, or the outcome to be awaited, at the next call
//   decided     it is a gradient, or passes; where more can be known later, it is measured again
//               after 1, 2, 4, ... further calls, so that it costs nothing in the end and a job
//               passes for twice as long as it has to at most
//
// Sites and their calls are the same on all ranks, evidence is each rank's own. One thread at a
// time makes calls; what the background thread reads and writes is behind a mutex.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "interpose/comm/caller.h"
#include "interpose/comm/site_samples.h"
#include "interpose/policy/evidence.h"

namespace cinch {

// What a rank knows of a call's buffer.
struct BufferOrigin {
  const void* data_dev = nullptr;  // itself, where it is known
  SharedFinding scattered{};       // of the ReduceScatter that has just filled it
};

class StepExam {
 public:
  enum class Phase : uint8_t { measuring, voting, decided };

  // One attempt on one site: what its votes are about, the same on all ranks.
  struct Attempt {
    uint32_t epoch, site, number;
    bool operator==(const Attempt&) const = default;
  };

  // `period`: Sequence::learned() of the step.
  StepExam(uint32_t period, uint32_t epoch, TrainingStep step, const CommResources& resources,
           int nRanks);
  StepExam(const StepExam&) = delete;

  const uint32_t period;

  uint32_t epoch() const { return epoch_; }
  // The period goes on in another epoch, where it is examined anew. What is known of the last
  // results is kept, to be compared with the next one: one call of each site is enough then.
  void reopen(uint32_t epoch);

  // The call at that position of the period is being made. `contrary` to the outcome: its site was
  // found to be a gradient when other threads made its calls, or by the size of the model in other
  // buffers, or while nothing large was reduced on another communicator.
  struct Noted {
    std::optional<uint32_t> site{};  // of the call, where it has one
    bool isGather = false;           // that is measured, and not voted on
    std::optional<Evidence> contrary{};
  };
  Noted note(uint32_t position, const CallOrigin& origin, const BufferOrigin& buffer = {});

  Phase phase(uint32_t site) const { return sites_[site].phase; }
  Attempt attempt(uint32_t site) const { return {epoch_, site, sites_[site].attempt}; }
  Evidence outcome(uint32_t site) const { return sites_[site].outcome; }
  uint64_t countOf(uint32_t site) const { return evidence_.reductionOf(site).signature.count; }
  void decide(uint32_t site, Evidence outcome);
  // It has been closed. What each rank finds of that is its own, so that none asks again before the
  // next epoch: the others would not.
  void close(uint32_t site, Evidence found);
  // Before a call of the site, the `ordinal`-th of its signature. Where it is time to, all sites of
  // which more can be known now are measured once more, from this call on: they are judged
  // together. The ordinal is that of a call that counts, the same on all ranks.
  void askAgain(uint32_t site, uint64_t ordinal);

  // Around a call of a site that is being measured. endCall() says that it was made; then a call
  // has been measured, however many of one site a group holds. takeBack(): those that were begun
  // were not made.
  // `buffer_dev` is what the program gave, of which the input is a part.
  void beginCall(uint32_t site, const DeviceValues& input, const void* buffer_dev, void* stream);
  void endCall(uint32_t site, const DeviceValues& output, void* stream);
  void takeBack();
  // The same around the exact reduction beside a call of a site that is compressed.
  void beginAudit(uint32_t site, const DeviceValues& input, void* stream);
  void endAudit(uint32_t site, const DeviceValues& output, void* stream);

  bool mustVote(uint32_t site) const { return sites_[site].mustVote; }
  // The sites that this rank has to vote on now: all are measured, or `isUrgent`. Each once.
  std::vector<uint32_t> takeUnvoted(bool isUrgent);

  // What the ranks decide where a site that was found to be a gradient is none any more: all stop
  // compressing it before the same call. It outlasts epochs; where that has been decided, there is
  // another one.
  uint64_t closingTopic(uint32_t site) const;
  bool isTaken(uint32_t site) const {
    return sites_[site].phase == Phase::decided && isGradient(sites_[site].outcome);
  }

  // Any thread: whether what was copied is there, and what was scattered before has been evaluated;
  // what this rank knows of a site by now, from what has arrived; what it found, and whether it
  // voted yes. What was found in an older attempt is of no use.
  bool hasArrived() const;
  Evidence evidence(uint32_t site, const ProcessFacts& process);
  struct Ballot {
    Evidence found = Evidence::notTheModel;
    bool isYes = false;
  };
  void noteBallot(const Attempt& attempt, const Ballot& ballot);
  SharedFinding sharedFinding(uint32_t site) const { return sites_[site].finding; }
  Ballot ballot(uint32_t site) const;

 private:
  struct Site {
    Phase phase = Phase::measuring;
    bool isGather = false;  // that is watched, and not voted on
    uint32_t attempt = 0;
    uint32_t nCalls = 0;                // that there are samples of
    uint32_t nNeeded = kMeasuredCalls;  // of these, until it is judged
    uint32_t oldest = 0;                // of its samples
    bool isOpen = false;                // a call has begun and not ended
    bool mustVote = false;
    Evidence outcome = Evidence::notTheModel;
    bool mayChange = false;         // by what is equal on all ranks
    std::optional<uint64_t> again;  // ordinal of the call from which on it is measured again
    Ballot ballot{};
    std::shared_ptr<std::atomic<SiteFinding>> finding =
        std::make_shared<std::atomic<SiteFinding>>(SiteFinding::unknown);
    bool wasTaken = false;  // for a gradient, since it was last closed
    uint32_t nClosed = 0;
    std::vector<const void*> measured;  // buffers, in this attempt

    // Where the next sample goes: in the place of the oldest one, if there are as many as can be.
    uint32_t nextSample() const { return (oldest + nCalls) % SiteSamples::kCalls; }
    void keepSample();
    void measureAgain();
  };

  const int nRanks_;
  mutable std::mutex mutex_;
  uint32_t epoch_;
  StepEvidence evidence_;
  SiteSamples samples_;
  std::vector<Site> sites_;
  std::vector<SharedFinding> scattered_;  // by position: of what its last call reduced
};

}  // namespace cinch
