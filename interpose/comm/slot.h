// A slot: one recurring compressed call of a communicator, and what outlives a single call of it:
// its plan, residuals, device-side counters and figures.
#pragma once

#include <string>

#include "common/stats.h"
#include "interpose/comm/buffer.h"
#include "interpose/plan/all_reduce_plan.h"

namespace cinch {

// How far the ranks are in getting a slot ready. Every rank goes through the same phases at the
// same calls.
enum class SlotPhase {
  idle,
  allocated,  // this rank has its memory and has voted; the others may not yet
  warmed,     // all have their memory; this rank's connections are made and it has voted again
  active,     // all are ready
  refused,    // some rank could not get ready
};

class Slot {
 public:
  Slot(uint32_t index, std::string name, const AllReducePlan& plan, float gain)
      : index(index), name(std::move(name)), plan(plan), gain(gain) {}

  // Allocates residuals, counters and mirror, and initialises the counters on `stream`. Holds no
  // memory after an error.
  Result<void> allocate(const DeviceTable& device, void* stream);

  // Zeroes the residuals on `stream` if this call must not use them: the caller's buffers are not
  // those of the last call, or the layout of the buckets changed (dropResiduals()).
  Result<void> refreshResiduals(const DeviceTable& device, const void* send, const void* recv,
                                void* stream);
  // The next call starts from zero residuals.
  void dropResiduals() { residualsStale_ = true; }

  // Enqueues a copy of the device's error sums to the mirror.
  Result<void> mirrorState(const DeviceTable& device, void* stream);
  // Moves what the mirror holds into the figures of the report, if its last copy is done.
  void readMirror();

  SlotState* state() const { return state_.as<SlotState>(); }
  float* encodeResidual() const { return encodeResidual_.as<float>(); }
  float* reduceResidual() const { return reduceResidual_.as<float>(); }
  // Gives up all memory without freeing it.
  void leak();

  const uint32_t index;
  const std::string name;
  const AllReducePlan plan;
  const float gain;
  SlotPhase phase = SlotPhase::idle;
  uint64_t calls = 0;  // compressed ones
  SlotStats* stats = nullptr;

 private:
  Result<void> allocateBuffers(const DeviceTable& device);
  Result<void> initialiseState(const DeviceTable& device, void* stream);

  Buffer encodeResidual_, reduceResidual_, state_, mirror_;
  Event mirrored_;
  const void* lastSend_ = nullptr;
  const void* lastRecv_ = nullptr;
  bool residualsStale_ = true;  // not cleared yet
};

}  // namespace cinch
