// Whether the large reductions of a training step reduce gradients. That they add up to the size of
// the model is necessary and never sufficient: so do averages of its weights. What is not known to
// be a gradient passes.
//
// These combinations are sufficient; docs/evidence.md explains each:
//
//   kind           position in the step   made by                   and
//   -------------  ---------------------  ------------------------  ------------------------------
//   AllReduce      known                  autograd threads          nothing large of the period
//                                                                   is from elsewhere, or these
//                                                                   alone are the model
//   AllReduce      ambiguous              autograd threads          nothing large has come from
//                                                                   elsewhere lately, nor ever on
//                                                                   other communicators, and DDP
//                                                                   has not sent buckets that are
//                                                                   not found in the period
//   AllReduce      known                  another thread, the last  autograd's and this one are
//                                         of a step                 the model, and not without it
//   ReduceScatter  known                  autograd threads          what is gathered in shards as
//                                                                   large is not seen to differ
//                                                                   from step to step
//   ReduceScatter  ambiguous, an average  autograd threads          its shards are gathered in
//                                                                   the same period
//   ReduceScatter  ambiguous              autograd threads; or      as large shards are gathered in
//                                         others, where these       the period, of what hardly
//                                         reduce nothing in a       changes from step to step, for
//                                         process that has them     all reductions of the period;
//                                                                   from others with much noise,
//                                                                   too
//   AllReduce      ambiguous              autograd threads          it is what a ReduceScatter of
//                                                                   gradients has just returned
//                                                                   elsewhere
//   any            known                  a process without         two different signatures, the
//                                         PyTorch                   model once and without counts,
//                                                                   and much noise in all of them
//   any            known                  others, where PyTorch     the same, and the model is
//                                         reduces nothing from      gathered in parts after it,
//                                         autograd threads          or reduced into shards, which
//                                                                   are gathered
//   AllReduce      known                  others, in a process      DDP has sent these buckets
//                                         that reduces nothing
//                                         from autograd threads
//   AllReduce      known or ambiguous     autograd threads          DDP has sent these buckets
//
// A veto by values (value_evidence.h) is stronger than any of them, and so are the same signature
// from both sorts of threads, and a broadcast of as many values in each step: activations. Where
// DDP's messages name buckets of a step, no other AllReduce of it is a gradient.
//
// Pure. Threads and values are a rank's own affair, so that its finding may only go into a vote.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "interpose/policy/callers.h"
#include "interpose/policy/reason.h"
#include "interpose/policy/signature.h"
#include "interpose/policy/value_evidence.h"

namespace cinch {

enum class Evidence : uint8_t {
  // Sufficient.
  autogradThreads,
  autogradAlone,
  completesModel,
  scattersShards,
  averagesShards,
  returnsAsWeights,
  ofShard,
  wholeModel,
  ddpMessages,
  // Vetoes.
  alike,
  integers,
  ofOneSign,
  gatheredBySums,
  besideVetoes,
  bothThreads,
  broadcastInStep,
  anotherThread,
  // Neither.
  ambiguous,
  oneSignature,
  notTheModel,
  tooFewValues,
  steady,
  besideDdp,
  outsideBackward,
  anotherBuffer,
  anotherRank,  // has vetoed
};
CallClass classOf(Evidence evidence);
// Half a sentence for people.
const char* textOf(Evidence evidence);

inline bool isGradient(Evidence evidence) {
  return classOf(evidence) == CallClass::gradient;
}
// Whether more can be known later: embeddings are filled, the noise of gradients outgrows their
// mean as training goes on, and what a first step did otherwise is long ago.
bool mayChange(Evidence evidence);
// Whether a rank that finds this knows better than rank 0, where that finds a gradient.
bool isVeto(Evidence evidence);

// Whether so many values are all `parameters` of a model. Small tensors may be missing, since they
// are reduced in small calls, and buffers are broadcast with the parameters; what a step reduces
// besides is little.
inline bool isModel(uint64_t values, uint64_t parameters) {
  return values > parameters - parameters / 50 && values < parameters + parameters / 100;
}

// Why a call passes of which this was found; Reason::none for a gradient.
Reason reasonOf(Evidence evidence);
// What rank 0 has sent as a number; nothing where it is none.
std::optional<Evidence> evidenceOf(uint8_t number);

// What the large calls of a learned period amount to.
struct TrainingStep {
  struct Call {
    Signature signature{};
    uint32_t slot = 0;  // of a reduction; those of several micro-batches share theirs
    bool isReduction = false;
    bool isGather = false;
    bool isBroadcast = false;
    // Of a gather whose values are looked at, which may be of the weights that the reductions are
    // the gradients of. `slot` counts them on from those of the reductions.
    bool isWatched = false;
  };
  std::vector<Call> calls;  // by position
  bool isPlaced = false;    // positions are known, else ambiguous
  bool isSharded = false;   // the model is reduced into shards, which are gathered
  uint64_t parameters = 0;  // that were broadcast: the model, where it is not sharded
  uint64_t nRanks = 0;      // of the communicator

  // Of a step in shards, or where positions say nothing: gathers of as many values as a
  // ReduceScatter returns, one of each size.
  void watchGathers();

  uint32_t nSlots() const;  // of reductions
  uint32_t nSites() const;  // and of gathers that are watched
  bool isWhole(uint64_t reduced) const { return isModel(reduced, parameters); }
  // Whether the model is gathered in parts after all reductions, as ZeRO's optimizer states leave
  // it.
  bool isGatheredNext() const;
  // What is called several times may be a gradient and something else of its size, such as
  // curvature or differences of gradients.
  bool isEachSiteCalledOnce() const;
};

// What PyTorch DDP's messages say of a bucket.
enum class DdpClaim : uint8_t {
  nothing,
  isOwn,     // it is one of DDP's
  isBeside,  // others of the step are DDP's, and it is none of them
  unclear,   // it has sent how it fills buckets, but none of the step's calls is known to be one
};

// What a rank knows beside the step itself.
struct ProcessFacts {
  bool reducesFromAutograd = false;  // on any communicator
  // Rank 0: what DDP's messages say of the bucket.
  DdpClaim ddp = DdpClaim::nothing;
  bool hasAutogradThreads = false;  // that reduce something or not
  bool isPyTorch = false;           // which has none where it trains nothing
  bool codesGathers = false;        // the user says that what is gathered are weights
  // The slot's last calls reduced what a ReduceScatter of gradients had just returned to the same
  // thread, on another communicator.
  bool isOfShard = false;
};

// What one rank sees of the calls of one learned period.
class StepEvidence {
 public:
  explicit StepEvidence(TrainingStep step);

  // The call at that position was made.
  void note(uint32_t position, const CallOrigin& origin);
  // Whether that sort of thread has made a call of the slot.
  bool hasSeen(uint32_t slot, Caller caller) const {
    const Threads threads = threadsOf(slot);
    return caller == Caller::autograd ? threads.hasAutograd : threads.hasOther;
  }
  void forgetThreads() { threads_.assign(threads_.size(), {}); }
  void judge(uint32_t slot, ValueVerdict values) { values_[slot] = values; }
  // Of a watched gather.
  void judgeGather(uint32_t site, GatherVerdict found) { gathers_[site - values_.size()] = found; }

  Evidence of(uint32_t slot, const ProcessFacts& process) const;

  const TrainingStep& step() const { return step_; }
  const TrainingStep::Call& reductionOf(uint32_t slot) const;
  const TrainingStep::Call& callOf(uint32_t site) const;  // or the watched gather

 private:
  struct Threads {
    bool hasAutograd = false, hasOther = false;
    CallerCounts ever{};
  };

  Threads threadsOf(uint32_t slot) const;
  bool comesFromBoth(uint32_t slot) const;
  bool isBroadcastInStep(uint64_t count) const;
  bool areAllFromAutograd() const;
  uint64_t valuesFrom(bool autograd) const;
  std::optional<Evidence> vetoOn(uint32_t slot) const;
  Evidence fromAutograd(uint32_t slot, const ProcessFacts& process) const;
  Evidence fromElsewhere(uint32_t slot, const ProcessFacts& process) const;
  Evidence ofShards(uint32_t slot, const ProcessFacts& process) const;
  bool isGathered(uint32_t slot, GatherVerdict as) const;
  bool areAllReturnedAsWeights(const ProcessFacts& process) const;
  bool hasTwoSignatures() const;
  Evidence ofWholeModel() const;
  bool completesModel(uint32_t slot) const;
  bool isOneOfEachStepFromElsewhere() const;

  TrainingStep step_;
  std::vector<Threads> threads_;        // by position
  bool isAutogradAlone_ = false;        // here and in the process, at the last call
  std::vector<ValueVerdict> values_;    // by slot
  std::vector<GatherVerdict> gathers_;  // by watched gather
};

}  // namespace cinch
