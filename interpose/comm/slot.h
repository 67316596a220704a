// A slot: one recurring compressed call of a communicator, and what outlives a single call of it:
// its plan, residuals, device-side counters and figures.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/stats.h"
#include "interpose/comm/buffer.h"
#include "interpose/plan/collective_plan.h"

namespace cinch {

// How far the ranks are in getting a slot ready. Every rank goes through the same phases at the
// same calls.
enum class SlotPhase {
  idle,
  allocated,  // this rank has its memory and has voted; the others may not yet
  connected,  // all have their memory; this rank's connections are made and it has voted again
  active,     // all are ready
  refused,    // some rank could not get ready
};

// What error feedback keeps between the calls of a slot; null where there is none.
struct Residuals {
  void* encode = nullptr;
  void* reduce = nullptr;
};

class Slot {
 public:
  Slot(uint64_t identity, std::string name, const CollectivePlan& plan, const CodingRule& rule)
      : identity(identity), name(std::move(name)), plan(plan), rule(rule) {}

  // Allocates residuals, counters and mirror, and initialises the counters on `stream`. Holds no
  // memory after an error.
  Result<void> allocate(const DeviceTable& device, void* stream);

  // Zeroes the residuals on `stream` if this call must not use them: the caller's buffers are not
  // those of the last call, or the layout of the buckets changed (dropResiduals()).
  Result<void> refreshResiduals(const DeviceTable& device, const void* send, const void* recv,
                                void* stream);
  // The next call starts from zero residuals.
  void dropResiduals() { residualsStale_ = true; }
  // The next call belongs to this epoch of its communicator's sequence, where the slot has a place:
  // residuals of another one are not its own.
  void enterEpoch(uint32_t epoch);

  // The residuals of calls on streams.
  Residuals residuals() const;
  // The residuals of the next call in the capture `id`, zero when its graph first runs. Graphs keep
  // their own, one pair for each call of this slot in a capture, since several buckets may share
  // the slot and a graph cannot see whether its buffers are those of the last call. Whether a rank
  // has memory for them is its own affair: without, its calls go without feedback.
  Residuals capturedResiduals(const DeviceTable& device, uint64_t id);

  // Enqueues a copy of the device's error sums to the mirror.
  Result<void> mirrorState(const DeviceTable& device, void* stream);
  // Moves what the mirror holds into the figures of the report, if its last copy is done.
  void readMirror();

  // Adds one compressed call to the figures.
  void countCall();

  SlotState* state() const { return state_.as<SlotState>(); }
  // Adds all memory to `buffers`; the slot is of no more use.
  void giveUp(std::vector<Buffer>& buffers);

  // What messages and votes call it: the same on all ranks, in whatever order they met their slots.
  const uint64_t identity;
  const std::string name;
  const CollectivePlan plan;
  const CodingRule rule;
  SlotPhase phase = SlotPhase::idle;
  uint64_t calls = 0;  // compressed ones
  SlotStats* stats = nullptr;

 private:
  Result<void> allocateBuffers(const DeviceTable& device);
  Result<void> initialiseState(const DeviceTable& device, void* stream);

  struct ResidualBuffers {
    Buffer encode, reduce;
    Residuals pointers() const { return {encode.as<void>(), reduce.as<void>()}; }
  };
  bool hasFeedback() const { return rule.gain > 0; }
  Result<ResidualBuffers> allocateResiduals(const DeviceTable& device) const;
  Result<ResidualBuffers> allocateClearResiduals(const DeviceTable& device) const;
  std::vector<Buffer*> allBuffers();

  ResidualBuffers residuals_;
  Buffer state_, mirror_;
  Event mirrored_;
  const void* lastSend_ = nullptr;
  const void* lastRecv_ = nullptr;
  bool residualsStale_ = true;  // not cleared yet
  uint32_t epoch_ = 0;

  std::vector<ResidualBuffers> captured_;  // by occurrence in a capture; live as long as the slot
  std::map<uint64_t, size_t> nInCapture_;  // by capture, since several may be under way
};

}  // namespace cinch
