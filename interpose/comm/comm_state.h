// What Cinch keeps for one communicator, beside NCCL's own object: facts, slots, workspace,
// figures.
//
// NCCL lets one thread at a time use a communicator, so nothing here takes a lock; abandon(),
// fail(), health(), hasFailed(), isAbandoned() and the births may be used from any thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/param.h"
#include "common/stats.h"
#include "interpose/comm/births.h"
#include "interpose/comm/bucket_layers.h"
#include "interpose/comm/call_tracer.h"
#include "interpose/comm/codec_stream.h"
#include "interpose/comm/comm_decisions.h"
#include "interpose/comm/join.h"
#include "interpose/comm/reduction_ops.h"
#include "interpose/comm/residual_store.h"
#include "interpose/comm/slot.h"
#include "interpose/comm/step_selection.h"
#include "interpose/comm/step_tracker.h"
#include "interpose/comm/workspace.h"
#include "interpose/policy/policy.h"

namespace cinch {

class CommState {
 public:
  CommState(const RealNccl& real, ncclComm_t comm, int rank, int nRanks,
            std::unique_ptr<Joining> joining);
  ~CommState();

  // Hears the verdict, once; after it the communicator's calls may be compressed, or not. May wait
  // for other ranks. An error only with CINCH_STRICT, where the ranks do not agree.
  Result<void> settle();

  // Decides on a collective, and counts it unless it is captured: graphs are made when a rank
  // pleases. With Reason::none, `slot` is where it belongs.
  struct Decision {
    Reason reason = Reason::none;
    Slot* slot = nullptr;
    bool counted = false;
    uint64_t captureId = 0;     // of the capture that the call is in
    CallStats* call = nullptr;  // where its outcome counts; null where no call does
    SiteExam exam{};  // of a call that has a place in the step, where its class is to be found out
    std::optional<Evidence> contrary{};  // to its having been found a gradient
    // Of the calls that could ever be compressed: what is smaller, a rank may make in a graph which
    // the others make without. Once submit() has numbered it, the same on all ranks.
    bool isNumbered = false;
    uint64_t number = 0;
    Place place{};  // in the step, of whose period the calls have that number
    uint64_t periodCalls = 0;
  };
  // `buffer_dev`: what the program gave to the call, where that is known; `root`: of a broadcast.
  Decision decide(const Signature& signature, CUstream_st* stream, const void* buffer_dev = nullptr,
                  int root = 0);
  // The calls that decide() counted since the last confirm() or takeBack() took place.
  void confirm();
  // They did not, `signature` among them.
  void takeBack(const Signature& signature);

  // NCCL has said `result` of a call that it was given unchanged, with `received_dev` as its
  // receive buffer; where it succeeded, nothing has been enqueued on `stream` behind it.
  void hear(const Signature& signature, const void* received_dev, CUstream_st* stream,
            ncclResult_t result);
  // Where the layers of buckets begin, and the reductions that these are the buckets of. Null but
  // on rank 0.
  BucketLayers* layers() const { return layers_.get(); }
  // Whether the position in a learned period is known, after the calls that were confirmed.
  bool isOnTrack() const { return steps_.sequence().period() > 0; }
  std::vector<GradientCall> gradients() const { return steps_.sequence().gradients(); }

  // The class of an operation on this communicator, and what it multiplies the input by.
  OpClass classOf(ncclRedOp_t op, ncclDataType_t type) const;
  InputFactor factorOf(ncclRedOp_t op, ncclDataType_t type) const;

  // The channel to the other ranks; only where they agreed.
  Agreement& agreement() { return *agreement_; }
  bool agreed() const { return facts_.agreed; }
  // Among what the ways to send its steps are selected.
  Selector::Options selectorOptions() const;
  // How encoded shards are gathered.
  bool gathersDirectly() const {
    return cinch::gathersDirectly(static_cast<uint32_t>(nRanks),
                                  static_cast<uint32_t>(hosts_.size()));
  }

  // A counted call ended so. Logs once, on rank 0, where nothing is compressed for long.
  void noteOutcome(const Signature& signature, Reason reason);

  // Counts a call that went to NCCL unchanged.
  void countPass(Reason reason, uint64_t nBytes);

  // Marks the communicator as failed with the first error, logs it once, returns its status.
  ncclResult_t fail(const Error& error);
  // ncclSuccess, or what compressed calls and ncclCommGetAsyncError must report.
  ncclResult_t health();

  // All ranks are ready for the calls of `slot`.
  void activate(Slot& slot);
  // Slots hold residuals, which no call has used. The first time, those that CINCH_RESIDUAL_DIR has
  // kept are loaded.
  void resumeResiduals();
  // All that there are, of whatever phase: on this rank, if it has simulated a group, more than on
  // others.
  const ResidualStore::Slots& slots() const { return slots_; }

  // No more calls will come. Waits for nobody, unless residuals are to be written, which they are
  // when queued work is done.
  void finish();
  // The communicator is aborted or revoked: wakes every wait, and the real NCCL is not called for
  // it any more.
  void abandon();
  bool isAbandoned() const { return abandoned_.load(); }
  bool hasFailed() const { return failed_.load() != ncclSuccess; }

  const RealNccl& real;
  const ncclComm_t comm;
  const int rank;
  const int nRanks;
  const std::string name;  // "communicator 1 rank 0 of 4"
  CommResources resources;
  Workspace workspace;
  CodecStream codecStream;             // where some slot's calls have chunks that may overlap
  std::unique_ptr<CallTracer> tracer;  // null without CINCH_TRACE
  ReductionOps ops;
  CommDecisions decisions{name};
  StepSelections selections;
  Births births;  // of communicators that are made from this one

 private:
  // A signature, and what else tells its slots apart: the codec, and the place in the step where
  // something is kept from step to step.
  struct SlotKey {
    uint32_t signatureIndex;
    uint8_t codecId;
    uint32_t place;
    auto operator<=>(const SlotKey&) const = default;
  };
  Verdict hearVerdict();
  void enrol(const Verdict& verdict);
  History inTheEnd(const Signature& signature) const;
  Decision decideCaptured(const Signature& signature, uint64_t captureId);
  Decision decideCounted(const Signature& signature, const void* buffer_dev, int root);
  void leaveIfUndecided(const Signature& signature);
  Slot* readySlot(const Signature& signature) const;
  Slot* slotOf(uint32_t signatureIndex, const Signature& signature, const Place& place,
               const Coding& coding);
  std::unique_ptr<Checkup> makeCheckup(const CollectivePlan& plan, const Coding& coding,
                                       uint64_t identity) const;
  Cut cutOf(uint64_t count, size_t nParts) const;
  std::shared_ptr<const HostPlan> hostPlanOf(const Signature& signature) const;
  Slot& makeSlot(const Signature& signature, const Coding& coding, const SlotKey& key);
  StepTracker::Observed observe(const Signature& signature, std::optional<uint32_t> index,
                                const void* buffer_dev, int root);
  uint64_t captureIdOf(CUstream_st* stream) const;
  CallStats& callOf(uint32_t signatureIndex, const Signature& signature);
  void logCalls();
  bool awaitLastCall() const;
  void writeResiduals();

  const Params& params_;
  const Rules rules_;
  std::unique_ptr<Joining> joining_;  // until settled
  const std::shared_ptr<Agreement> agreement_;
  std::optional<Result<void>> settled_;  // an error by CINCH_STRICT
  bool hasLeft_ = false;                 // for good, as its calls are captured
  CommStats* stats_ = nullptr;           // once settled
  bool logged_ = false;                  // the table of calls
  CommFacts facts_;
  Hosts hosts_;  // where the ranks agreed
  SignatureTable signatures_;
  std::vector<CallStats*> calls_;  // by index of the signature
  StepTracker steps_;
  std::unique_ptr<BucketLayers> layers_;  // where the ranks agreed
  std::vector<std::unique_ptr<Slot>> slots_;
  std::unique_ptr<ResidualStore> residualStore_;  // from the first slot with feedback on
  std::map<SlotKey, Slot*> slotByKey_;
  // The slot that the first capture of a signature found ready, or none, which all later captures
  // repeat: a rank may make its graph anew while the others go on with theirs.
  std::unordered_map<Signature, Slot*, SignatureHash> captured_;
  std::atomic<uint32_t*> fault_{nullptr};
  std::atomic<int> failed_{ncclSuccess};
  std::atomic<bool> abandoned_{false};
};

}  // namespace cinch
