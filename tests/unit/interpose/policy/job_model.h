// What the ranks of a job decide about the calls of one communicator: the same code that decides in
// the product, without memory, threads and messages between the ranks. What is equal on all ranks
// is there once, what is a rank's own affair is there for each.
//
// - comm/step_exam.h and execute/examine.cc measure sites and let the ranks vote; here the votes
//   are counted at once.
// - A rank that sees another sort of thread call a site than when that was measured closes it
//   before that very call, for the rest of the epoch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "interpose/policy/evidence.h"
#include "interpose/policy/policy.h"

namespace cinch::test {

// What a user has who sets nothing.
Params defaultSettings();

struct JobFacts {
  int nRanks = 2;
  Params params = defaultSettings();
  Vetoes vetoes{};
  SampledRuns runs{};              // of the values that are asked for
  bool hasAutogradThreads = true;  // in the processes, whether they reduce or not
  bool seesThreads = true;  // else all calls seem to come from threads that are not autograd's
};

class JobModel {
 public:
  // What a rank gave to the call and received. Only asked for while its site is measured.
  using SampleOf = std::function<SampledCall(size_t rank)>;

  explicit JobModel(const JobFacts& facts);

  // One call of all ranks, with the thread that makes it on each. True where it is compressed.
  bool call(const Signature& signature, std::span<const Caller> callers, const SampleOf& sampleOf);

  // A call on another communicator of the same processes: it shows who reduces there.
  void noteElsewhere(const Signature& signature, std::span<const Caller> callers);

  // Of the last call.
  const Place& place() const { return place_; }
  // What the ranks have found of its site; nothing while that is measured or where it never is.
  std::optional<Evidence> outcome() const;

  const Sequence& sequence() const { return sequence_; }

 private:
  enum class Phase : uint8_t { measuring, voting, decided };
  struct Site {
    Phase phase = Phase::measuring;
    uint32_t attempt = 0, nCalls = 0, nNeeded = kMeasuredCalls;
    Evidence outcome = Evidence::notTheModel;
    std::optional<uint64_t> again;
    bool hasVoted = false, isClosed = false;
    bool isGather = false, isOfShard = false;
    int nCallsToGetReady = 0;
    std::vector<Caller> callers;                    // by rank, of its first measured call
    std::vector<std::vector<SampledCall>> samples;  // by rank
  };
  // Of one learned period.
  struct Exam {
    uint32_t period, epoch;
    std::vector<StepEvidence> ranks;
    std::vector<Site> sites;
  };

  // Of a call whose place is known, or will be `expected` if the period goes on.
  void noteReduction(const Signature& signature, std::span<const Caller> callers);
  void noteOrigins(const Place& expected, std::span<const CallOrigin> origins, bool areOfShard);
  void openExam(const Place& expected, size_t nRanks);
  void reopen(uint32_t epoch);
  void askAgain(uint64_t ordinal);
  bool examine(std::span<const Caller> callers, const SampleOf& sampleOf);
  void measureWhileLost(const Place& expected, std::span<const Caller> callers,
                        const SampleOf& sampleOf);
  void measureGather(uint32_t position, std::span<const Caller> callers, const SampleOf& sampleOf);
  void measure(Site& site, std::span<const Caller> callers, const SampleOf& sampleOf,
               bool isPlaced);
  void vote(bool isUrgent);
  void judge();
  Evidence count(uint32_t site) const;

  const JobFacts facts_;
  const CommFacts comm_;
  SignatureTable signatures_;
  Sequence sequence_;
  Place place_;
  std::vector<bool> reducesFromAutograd_;  // by rank
  bool reducesBeside_ = false;             // on another communicator
  // What autograd threads have just scattered there: buffers are not recorded of results.
  std::optional<uint64_t> scatteredBeside_;
  std::vector<Callers> callers_;  // by rank
  std::unique_ptr<Exam> exam_;
};

}  // namespace cinch::test
