// A slot: one recurring compressed call of a communicator, and what outlives a single call of it:
// its plan, residuals, device-side counters and figures.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/stats.h"
#include "interpose/comm/buffer.h"
#include "interpose/comm/checkup.h"
#include "interpose/comm/slot_residuals.h"
#include "interpose/plan/collective_plan.h"

namespace cinch {

// How far the ranks are in getting a slot ready. Every rank goes through the same phases at the
// same calls.
enum class SlotPhase {
  idle,
  allocated,       // this rank has its memory and has voted; the others may not yet
  allocatedByAll,  // NCCL can connect the ranks, as soon as they are at one call together
  connected,       // all have their memory; this rank's connections are made and it has voted again
  active,          // all are ready
  refused,         // some rank could not get ready
  inaccurate,      // 8 bits were not enough
};

// The same on all ranks.
struct SlotCalls {
  uint64_t nCalls = 0;       // that were ready to be compressed, or getting ready
  uint64_t nCompressed = 0;  // of them
  uint64_t lastFull = 0;     // the last one that used the residuals; 0: none
  uint64_t number = 0;       // of the last one, among its communicator's
  // The question that the slot's residuals were part of, by number; its calls have feedback while
  // the yes to it holds (Selector::Residuals::hold()).
  uint64_t question = 0;
};

class Slot {
 public:
  // `checkup` is null where the slot is never examined.
  Slot(uint64_t identity, std::string name, const CollectivePlan& plan, const CodingRule& rule,
       std::unique_ptr<Checkup> checkup)
      : identity(identity),
        name(std::move(name)),
        plan(plan),
        rule(rule),
        checkup(std::move(checkup)),
        planInForce_(plan) {}

  // What calls on streams follow; captured ones follow capturedPlan() for ever.
  const CollectivePlan& planInForce() const { return planInForce_; }
  // What its calls may need of the workspace, whatever plan comes; and of that, for codes. The same
  // on all ranks.
  uint64_t roomBytes() const;
  uint64_t codeBytes() const;

  // All ranks have been told the same: the calls from here on follow `change`, the next one after
  // enterPlan() has enqueued what that takes on its stream, behind all earlier calls.
  Result<void> changePlan(const DeviceTable& device, const PrecisionPlan& change);
  Result<void> enterPlan(const DeviceTable& device, void* stream);

  // Allocates counters and mirror, and initialises the counters on `stream`. Holds no memory after
  // an error.
  Result<void> allocate(const DeviceTable& device, void* stream);

  // Takes memory for the residuals of calls on streams, where the slot keeps any.
  Result<void> takeResiduals(const DeviceTable& device);
  // Those of the next call on `stream`, which are zero where it must not use the last one's: the
  // caller's buffers are others, or the layout of the buckets changed. Null where none are held.
  Result<Residuals> residualsOfCall(const DeviceTable& device, const void* send, const void* recv,
                                    void* stream);
  // Those of the next call in the capture `id`. Whether a rank has memory for them is its own
  // affair: without, its calls go without feedback.
  Residuals residualsInCapture(const DeviceTable& device, uint64_t id);
  // Of what they belong to: a lane's are of its part of the bucket alone.
  uint64_t residualIdentity() const;
  bool hasFeedback() const { return rule.gain > 0 && plan.hasResiduals() && !plan.isIdle(); }

  // Enqueues a copy of the device's error sums to the mirror.
  Result<void> mirrorState(const DeviceTable& device, void* stream);
  // Moves what the mirror holds into the figures of the report, if its last copy is done.
  void readMirror();

  // Adds one compressed call to the figures, and what an exact one sent besides if it was examined.
  void countCall(const CollectivePlan& followed, bool isExamined);

  SlotState* state() const { return state_.as<SlotState>(); }
  // Stateless calls have an account of their own: what poisons the residuals of the others' next
  // call must wait for that.
  SlotState* statelessState() const { return state() + 1; }
  // Adds all memory to `buffers`; the slot is of no more use.
  void giveUp(std::vector<Buffer>& buffers);
  // The same of a slot that has not been used: its memory is free after the event, and it may
  // allocate() again.
  Event release(std::vector<Buffer>& buffers);

  // What messages and votes call it: the same on all ranks, in whatever order they met their slots.
  const uint64_t identity;
  const std::string name;
  const CollectivePlan plan;
  // Of its stateless calls, which keep nothing from call to call: as the plan, with
  // statelessCodec().
  std::optional<CollectivePlan> statelessPlan;
  // Whether they are as good as the others in a call (SlotCalls::nCalls): the precision of those
  // may have been raised above theirs. The same on all ranks, which are told of the whole bucket;
  // also of a call that was taken back and comes again.
  bool mayBeStateless(uint64_t call) const { return statelessPlan && call < statelessEndsAt_; }
  // Of captured calls, which do not overlap: as the plan, in one chunk; none where that has one.
  std::optional<CollectivePlan> wholePlan;
  const CollectivePlan& capturedPlan() const { return wholePlan ? *wholePlan : plan; }
  const CodingRule rule;
  const std::unique_ptr<Checkup> checkup;
  SlotPhase phase = SlotPhase::idle;
  uint64_t nGivenBack = 0;  // how often it had got ready in vain
  uint64_t calls = 0;       // compressed ones
  SlotCalls made{};         // eager ones, where how they are sent is selected
  SlotStats* stats = nullptr;
  SlotResiduals residuals;

 private:
  Result<void> allocateBuffers(const DeviceTable& device);
  Result<void> initialiseState(const DeviceTable& device, void* stream);

  // What the host sees of the device's figures, some calls late.
  struct Mirror {
    SlotState state;
    ProbeState probe;
  };
  std::vector<wire::Segment> ownRuns(const std::vector<wire::Segment>& runs) const;
  ResidualRange rangeOf(const CollectivePlan& of) const;
  void warnOfOverflow() const;

  CollectivePlan planInForce_;
  uint64_t statelessEndsAt_ = UINT64_MAX;  // call
  bool hasChanged_ = false;                // the plan, until enterPlan()
  Buffer state_, mirror_;
  Event mirrored_;
};

}  // namespace cinch
