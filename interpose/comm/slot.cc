#include "interpose/comm/slot.h"

#include "common/log.h"
#include "interpose/comm/memory_reserve.h"

namespace cinch {

Result<void> Slot::allocate(const DeviceTable& device, void* stream) {
  Result<void> done = allocateBuffers(device);
  if (done.ok()) done = initialiseState(device, stream);
  if (!done.ok())
    for (Buffer* buffer : allBuffers()) *buffer = Buffer();
  return done;
}

Result<Slot::ResidualBuffers> Slot::allocateResiduals(const DeviceTable& device) const {
  if (!hasFeedback()) return ResidualBuffers();
  MemoryReserve& reserve = MemoryReserve::instance();
  auto encode =
      reserve.allocate(device, plan.encodeResidualBytes(rule.residualType), Buffer::Where::device);
  if (!encode.ok()) return encode.error();
  auto reduce =
      reserve.allocate(device, plan.reduceResidualBytes(rule.residualType), Buffer::Where::device);
  if (!reduce.ok()) return reduce.error();
  return ResidualBuffers{std::move(encode.value()), std::move(reduce.value())};
}

Result<void> Slot::allocateBuffers(const DeviceTable& device) {
  auto residuals = allocateResiduals(device);
  if (!residuals.ok()) return residuals.error();
  auto state = MemoryReserve::instance().allocate(device, sizeof(SlotState), Buffer::Where::device);
  if (!state.ok()) return state.error();
  auto mirror = MemoryReserve::instance().allocate(device, sizeof(SlotState), Buffer::Where::host);
  if (!mirror.ok()) return mirror.error();
  auto event = Event::create(device);
  if (!event.ok()) return event.error();
  residuals_ = std::move(residuals.value());
  state_ = std::move(state.value());
  mirror_ = std::move(mirror.value());
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
  for (const Buffer* residual : {&residuals_.encode, &residuals_.reduce})
    if (*residual)
      CINCH_TRY_DEVICE(device, device.clearAsync(residual->as<void>(), residual->bytes(), stream),
                       "cannot clear a residual");
  return {};
}

void Slot::enterEpoch(uint32_t epoch) {
  residualsStale_ = residualsStale_ || epoch != epoch_;
  epoch_ = epoch;
}

Residuals Slot::residuals() const {
  return residuals_.pointers();
}

Result<Slot::ResidualBuffers> Slot::allocateClearResiduals(const DeviceTable& device) const {
  const RelaxedCapture relaxed(device);
  auto fresh = allocateResiduals(device);
  if (!fresh.ok()) return fresh;
  for (const Buffer* buffer : {&fresh.value().encode, &fresh.value().reduce})
    if (*buffer)
      CINCH_TRY_DEVICE(device, device.clearNow(buffer->as<void>(), buffer->bytes()),
                       "cannot clear a residual");
  return fresh;
}

Residuals Slot::capturedResiduals(const DeviceTable& device, uint64_t id) {
  if (!hasFeedback()) return {};
  if (nInCapture_.size() == kMaxOpenCaptures && !nInCapture_.contains(id))
    nInCapture_.erase(nInCapture_.begin());
  const size_t occurrence = nInCapture_[id]++;
  if (occurrence == captured_.size()) {
    auto fresh = allocateClearResiduals(device);
    if (!fresh.ok())
      CINCH_WARN("EXEC", "%s: no error feedback in a captured call: %s", name.c_str(),
                 fresh.error().message.c_str());
    captured_.push_back(fresh.ok() ? std::move(fresh.value()) : ResidualBuffers());
  }
  return captured_[occurrence].pointers();
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

void Slot::countCall() {
  ++calls;
  stats->compressed.fetch_add(1, std::memory_order_relaxed);
  stats->bytesIn.fetch_add(plan.inputBytes(), std::memory_order_relaxed);
  stats->wireBytes.fetch_add(plan.wireBytes(), std::memory_order_relaxed);
}

std::vector<Buffer*> Slot::allBuffers() {
  std::vector<Buffer*> all = {&residuals_.encode, &residuals_.reduce, &state_, &mirror_};
  for (ResidualBuffers& captured : captured_) {
    all.push_back(&captured.encode);
    all.push_back(&captured.reduce);
  }
  return all;
}

void Slot::giveUp(std::vector<Buffer>& buffers) {
  for (Buffer* buffer : allBuffers()) buffers.push_back(std::move(*buffer));
}

}  // namespace cinch
