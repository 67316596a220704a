#include "interpose/comm/slot.h"

namespace cinch {

Result<void> Slot::allocate(const DeviceTable& device, void* stream) {
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

  *mirror_.as<SlotState>() = SlotState{};
  mirror_.as<SlotState>()->ordinal = 1;
  CINCH_TRY_DEVICE(device, device.copyAsync(state(), mirror_.as<void>(), sizeof(SlotState), stream),
                   "cannot initialise a slot");
  CINCH_TRY(mirrored_.record(stream));
  mirrorUse_.store(Mirror::inFlight, std::memory_order_release);
  return {};
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
  readMirror();
  if (mirrorUse_.load(std::memory_order_acquire) != Mirror::free) return {};
  CINCH_TRY_DEVICE(device, device.copyAsync(mirror_.as<void>(), state(), sizeof(SlotState), stream),
                   "cannot read a slot's figures");
  CINCH_TRY(mirrored_.record(stream));
  mirrorUse_.store(Mirror::inFlight, std::memory_order_release);
  return {};
}

void Slot::readMirror() {
  Mirror expected = Mirror::inFlight;
  if (!mirrorUse_.compare_exchange_strong(expected, Mirror::reading)) return;
  if (!mirrored_.done()) {
    mirrorUse_.store(Mirror::inFlight, std::memory_order_release);
    return;
  }
  const auto* copy = mirror_.as<SlotState>();
  for (int stage = 0; stage < 2; ++stage) {
    stats->stage[stage].error.store(copy->error[stage], std::memory_order_relaxed);
    stats->stage[stage].power.store(copy->power[stage], std::memory_order_relaxed);
  }
  mirrorUse_.store(Mirror::free, std::memory_order_release);
}

void Slot::leak() {
  for (Buffer* buffer : {&encodeResidual_, &reduceResidual_, &state_, &mirror_}) buffer->leak();
}

}  // namespace cinch
