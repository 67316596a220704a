#include "interpose/comm/slot.h"

namespace cinch {

Result<void> Slot::allocate(const DeviceTable& device, void* stream) {
  Result<void> done = allocateBuffers(device);
  if (done.ok()) done = initialiseState(device, stream);
  if (!done.ok())
    for (Buffer* buffer : {&encodeResidual_, &reduceResidual_, &state_, &mirror_})
      *buffer = Buffer();
  return done;
}

Result<void> Slot::allocateBuffers(const DeviceTable& device) {
  const struct {
    Buffer* buffer;
    size_t nBytes;
    Buffer::Where where;
  } wanted[] = {
      {&encodeResidual_, gain > 0 ? plan.encodeResidualBytes() : 0, Buffer::Where::device},
      {&reduceResidual_, gain > 0 ? plan.reduceResidualBytes() : 0, Buffer::Where::device},
      {&state_, sizeof(SlotState), Buffer::Where::device},
      {&mirror_, sizeof(SlotState), Buffer::Where::host},
  };
  for (const auto& want : wanted) {
    auto buffer = Buffer::allocate(device, want.nBytes, want.where);
    if (!buffer.ok()) return buffer.error();
    *want.buffer = std::move(buffer.value());
  }
  auto event = Event::create(device);
  if (!event.ok()) return event.error();
  mirrored_ = std::move(event.value());
  return {};
}

Result<void> Slot::initialiseState(const DeviceTable& device, void* stream) {
  auto* initial = mirror_.as<SlotState>();
  *initial = SlotState{};
  initial->ordinal = 1;
  CINCH_TRY_DEVICE(device, device.copyAsync(state(), initial, sizeof(SlotState), stream),
                   "cannot initialise a slot");
  return mirrored_.record(stream);
}

Result<void> Slot::refreshResiduals(const DeviceTable& device, const void* send, const void* recv,
                                    void* stream) {
  const bool moved = send != lastSend_ || recv != lastRecv_;
  lastSend_ = send;
  lastRecv_ = recv;
  if (!moved && !residualsStale_) return {};
  residualsStale_ = false;
  if (calls > 0) stats->residualResets.fetch_add(1, std::memory_order_relaxed);
  for (const Buffer* residual : {&encodeResidual_, &reduceResidual_})
    if (*residual)
      CINCH_TRY_DEVICE(device, device.clearAsync(residual->as<void>(), residual->bytes(), stream),
                       "cannot clear a residual");
  return {};
}

Result<void> Slot::mirrorState(const DeviceTable& device, void* stream) {
  CINCH_TRY_DEVICE(device, device.copyAsync(mirror_.as<void>(), state(), sizeof(SlotState), stream),
                   "cannot read a slot's figures");
  return mirrored_.record(stream);
}

void Slot::readMirror() {
  if (!mirror_ || !mirrored_.done()) return;
  const auto* copy = mirror_.as<SlotState>();
  for (int stage = 0; stage < 2; ++stage) {
    stats->stage[stage].error.store(copy->error[stage], std::memory_order_relaxed);
    stats->stage[stage].power.store(copy->power[stage], std::memory_order_relaxed);
  }
}

void Slot::leak() {
  for (Buffer* buffer : {&encodeResidual_, &reduceResidual_, &state_, &mirror_}) buffer->leak();
}

}  // namespace cinch
