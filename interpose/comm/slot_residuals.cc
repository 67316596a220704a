#include "interpose/comm/slot_residuals.h"

#include <algorithm>
#include <utility>

#include "interpose/comm/memory_reserve.h"
#include "interpose/comm/residual_budget.h"

namespace cinch {
namespace {

Result<void> zeroResidual(const DeviceTable& device, const ReturnableBuffer& buffer, void* stream) {
  if (!buffer) return {};
  CINCH_TRY_DEVICE(device, device.clearAsync(buffer.as<void>(), buffer.bytes(), stream),
                   "cannot clear a residual");
  return {};
}

// What is of both ranges, from one buffer of an owned shard to the other.
Result<void> copyOwned(const DeviceTable& device, const ReturnableBuffer& from,
                       const ResidualRange& fromRange, const ReturnableBuffer& to,
                       const ResidualRange& toRange, void* stream) {
  const uint64_t first = std::max(fromRange.ownedFirst, toRange.ownedFirst);
  const uint64_t end = std::min(fromRange.ownedEnd, toRange.ownedEnd);
  if (!from || first >= end) return {};
  CINCH_TRY_DEVICE(
      device,
      device.copyAsync(to.as<char>() + (first - toRange.ownedFirst),
                       from.as<char>() + (first - fromRange.ownedFirst), end - first, stream),
      "cannot move a residual");
  return {};
}

}  // namespace

Result<void> SlotResiduals::prepare(const DeviceTable& device) {
  auto probe =
      MemoryReserve::instance().allocate(device, sizeof(ProbeState), Buffer::Where::device);
  CINCH_TRY(probe);
  const RelaxedCapture relaxed(device);
  CINCH_TRY_DEVICE(device, device.clearNow(probe.value().as<void>(), sizeof(ProbeState)),
                   "cannot initialise a slot");
  probe_ = std::move(probe.value());
  return {};
}

Result<void> SlotResiduals::take(const DeviceTable& device, const ResidualRange& range) {
  if (areHeld() || range.encodeBytes == 0) return {};
  CINCH_TRY_DEVICE(device, device.getDevice(&cudaDevice_), "no current device");
  CINCH_TRY(reserveForResiduals(device, range.encodeBytes + range.ownedBytes()));
  auto encode = ReturnableBuffer::allocate(device, range.encodeBytes);
  auto reduce = encode.ok() ? ReturnableBuffer::allocate(device, range.ownedBytes())
                            : Result<ReturnableBuffer>(encode.error());
  if (!reduce.ok()) {
    if (encode.ok()) encode.value().giveBackUnused();
    returnToResidualBudget(cudaDevice_, range.encodeBytes + range.ownedBytes());
    return reduce.error();
  }
  encode_ = std::move(encode.value());
  reduce_ = std::move(reduce.value());
  range_ = range;
  isStale_ = true;
  show();
  return {};
}

void SlotResiduals::giveBack(void* stream) {
  returnToResidualBudget(cudaDevice_, bytes());
  for (ReturnableBuffer* residual : {&encode_, &reduce_}) residual->giveBack(stream);
  forget();
}

void SlotResiduals::giveBackUnused() {
  returnToResidualBudget(cudaDevice_, bytes());
  for (ReturnableBuffer* residual : {&encode_, &reduce_}) residual->giveBackUnused();
  forget();
}

void SlotResiduals::strand() {
  for (ReturnableBuffer* residual : {&encode_, &reduce_})
    MemoryReserve::instance().strand(std::move(*residual));
}

void SlotResiduals::forget() {
  range_ = {};
  isStale_ = true;
  show();
}

void SlotResiduals::show() const {
  if (figure != nullptr) figure->store(bytes(), std::memory_order_relaxed);
}

Residuals SlotResiduals::pointers() const {
  if (!areHeld()) return {};
  return {encode_.as<void>(), reduce_.as<void>(), probe_.as<ProbeState>()};
}

void SlotResiduals::enterEpoch(uint32_t epoch) {
  isStale_ = isStale_ || epoch != epoch_;
  epoch_ = epoch;
}

Result<SlotResiduals::Refreshed> SlotResiduals::refresh(const DeviceTable& device, const void* send,
                                                        const void* recv, void* stream) {
  const auto last = std::exchange(last_, {send, recv});
  Refreshed done{.hasMoved = last.first != nullptr && last != last_};
  if (!areHeld() || !(done.hasMoved || isStale_)) return done;
  isStale_ = false;
  done.isZeroed = true;
  for (const ReturnableBuffer* residual : {&encode_, &reduce_})
    CINCH_TRY(zeroResidual(device, *residual, stream));
  return done;
}

Result<void> SlotResiduals::resume(const DeviceTable& device) {
  for (const ReturnableBuffer* residual : {&encode_, &reduce_})
    if (*residual)
      CINCH_TRY_DEVICE(device, device.clearNow(residual->as<void>(), residual->bytes()),
                       "cannot clear a residual");
  isStale_ = false;
  return {};
}

Result<void> SlotResiduals::move(const DeviceTable& device, const ResidualRange& range,
                                 void* stream) {
  if (!areHeld() || range == range_) return {};
  ReturnableBuffer old = std::exchange(reduce_, ReturnableBuffer());
  const RelaxedCapture relaxed(device);
  auto fresh = ReturnableBuffer::allocate(device, range.ownedBytes());
  Result<void> done = fresh.ok() ? Result<void>() : fresh.error();
  if (done.ok()) reduce_ = std::move(fresh.value());
  if (done.ok()) done = zeroResidual(device, reduce_, stream);
  if (done.ok()) done = copyOwned(device, old, range_, reduce_, range, stream);
  if (!done.ok()) reduce_.giveBack(stream);
  countForResiduals(device, reduce_.bytes());
  returnToResidualBudget(cudaDevice_, old.bytes());
  old.giveBack(stream);
  range_ = range;
  if (!done.ok()) range_.ownedEnd = range_.ownedFirst;
  show();
  return done;
}

// Within the budget, too.
Result<SlotResiduals::OfGraph> SlotResiduals::makeCaptured(const DeviceTable& device,
                                                           const ResidualRange& range) {
  const RelaxedCapture relaxed(device);
  CINCH_TRY_DEVICE(device, device.getDevice(&cudaDevice_), "no current device");
  const uint64_t nBytes = range.encodeBytes + range.ownedBytes();
  CINCH_TRY(reserveForResiduals(device, nBytes));
  auto made = allocateCaptured(device, range);
  if (made.ok())
    capturedBytes_ += nBytes;
  else
    returnToResidualBudget(cudaDevice_, nBytes);
  return made;
}

Result<SlotResiduals::OfGraph> SlotResiduals::allocateCaptured(const DeviceTable& device,
                                                               const ResidualRange& range) {
  MemoryReserve& reserve = MemoryReserve::instance();
  OfGraph made;
  const std::pair<Buffer*, uint64_t> wanted[] = {{&made.encode, range.encodeBytes},
                                                 {&made.reduce, range.ownedBytes()},
                                                 {&made.probe, sizeof(ProbeState)}};
  for (const auto& [buffer, nBytes] : wanted) {
    auto allocated = reserve.allocate(device, nBytes, Buffer::Where::device);
    CINCH_TRY(allocated);
    *buffer = std::move(allocated.value());
    if (*buffer)
      CINCH_TRY_DEVICE(device, device.clearNow(buffer->as<void>(), nBytes),
                       "cannot clear a residual");
  }
  return made;
}

Result<Residuals> SlotResiduals::captured(const DeviceTable& device, const ResidualRange& range,
                                          uint64_t id) {
  if (range.encodeBytes == 0) return Residuals();
  if (nInCapture_.size() == kMaxOpenCaptures && !nInCapture_.contains(id))
    nInCapture_.erase(nInCapture_.begin());
  const size_t occurrence = nInCapture_[id]++;
  if (occurrence == captured_.size()) {
    auto fresh = makeCaptured(device, range);
    captured_.push_back(fresh.ok() ? std::move(fresh.value()) : OfGraph());
    CINCH_TRY(fresh);
  }
  const OfGraph& of = captured_[occurrence];
  return Residuals{of.encode.as<void>(), of.reduce.as<void>(), of.probe.as<ProbeState>()};
}

void SlotResiduals::giveUp(std::vector<Buffer>& buffers) {
  buffers.push_back(std::move(probe_));
  for (OfGraph& captured : captured_)
    for (Buffer* buffer : {&captured.encode, &captured.reduce, &captured.probe})
      buffers.push_back(std::move(*buffer));
  captured_.clear();
  returnToResidualBudget(cudaDevice_, std::exchange(capturedBytes_, 0));
}

}  // namespace cinch
