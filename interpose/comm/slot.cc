#include "interpose/comm/slot.h"

#include <algorithm>
#include <cmath>

#include "common/hash.h"
#include "common/log.h"
#include "interpose/comm/memory_reserve.h"
#include "interpose/plan/residual_memory.h"
#include "kernels/core/probe.h"

namespace cinch {
namespace {

// Whether `runs` take more bytes than `codec` would for all of them.
bool isLarger(std::span<const wire::Segment> runs, wire::CodecFormat codec) {
  uint64_t own = 0, other = 0;
  for (const wire::Segment& run : runs) {
    own += run.nTiles * run.codec.tileBytes();
    other += run.nTiles * codec.tileBytes();
  }
  return own > other;
}

// Outliers and layers that must arrive exactly, of which stateless codes know nothing.
bool hasRawTiles(std::span<const wire::Segment> runs) {
  return std::ranges::any_of(runs, [](const wire::Segment& run) { return run.codec.bits > 8; });
}

}  // namespace

Result<void> Slot::allocate(const DeviceTable& device, void* stream) {
  Result<void> done = allocateBuffers(device);
  if (done.ok()) done = initialiseState(device, stream);
  if (!done.ok())
    for (Buffer* buffer : allBuffers()) *buffer = Buffer();
  if (!done.ok() && checkup) {
    std::vector<Buffer> dropped;
    checkup->giveUp(dropped);
  }
  return done;
}

uint64_t Slot::roomBytes() const {
  return plan.hosts ? plan.hosts->roomBytes(codeBytes()) : codeBytes();
}

uint64_t Slot::codeBytes() const {
  const auto codesOf = [](const wire::ShardLayout& layout) {
    return layout.chunkBytes(layout.nChunks);
  };
  const wire::ShardLayout largest = plan.largestLayout();
  const uint64_t stateless = statelessPlan ? codesOf(statelessPlan->largestLayout()) : 0;
  return std::max({stateless, codesOf(capturedPlan().largestLayout()),
                   checkup ? roomFor(largest.count, largest.nShards, largest.codec, largest.nChunks)
                           : codesOf(largest)});
}

Result<Slot::ResidualBuffers> Slot::allocateResiduals(const DeviceTable& device,
                                                      const CollectivePlan& of,
                                                      bool isWhole) const {
  if (!hasFeedback() || plan.isIdle()) return ResidualBuffers();
  MemoryReserve& reserve = MemoryReserve::instance();
  const ResidualSizes sizes = residualSizes(of, rule.residualType, isWhole);
  auto encode = reserve.allocate(device, sizes.encode, Buffer::Where::device);
  if (!encode.ok()) return encode.error();
  auto reduce = reserve.allocate(device, sizes.reduce, Buffer::Where::device);
  if (!reduce.ok()) return reduce.error();
  auto probe = reserve.allocate(device, sizeof(ProbeState), Buffer::Where::device);
  if (!probe.ok()) return probe.error();
  return ResidualBuffers{std::move(encode.value()), std::move(reduce.value()),
                         std::move(probe.value())};
}

Result<void> Slot::allocateBuffers(const DeviceTable& device) {
  if (checkup) CINCH_TRY(checkup->allocate(device, plan));
  auto residuals = allocateResiduals(device, plan, checkup != nullptr);
  if (!residuals.ok()) return residuals.error();
  auto state =
      MemoryReserve::instance().allocate(device, 2 * sizeof(SlotState), Buffer::Where::device);
  if (!state.ok()) return state.error();
  auto mirror = MemoryReserve::instance().allocate(device, sizeof(Mirror), Buffer::Where::host);
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
  auto* initial = mirror_.as<Mirror>();
  *initial = Mirror{};
  initial->state.ordinal = 1;
  for (SlotState* account : {state(), statelessState()})
    CINCH_TRY_DEVICE(device, device.copyAsync(account, &initial->state, sizeof(SlotState), stream),
                     "cannot initialise a slot");
  // At once, since resumeResiduals() follows no stream.
  const RelaxedCapture relaxed(device);
  if (residuals_.probe)
    CINCH_TRY_DEVICE(device, device.clearNow(residuals_.probe.as<void>(), sizeof(ProbeState)),
                     "cannot initialise a slot");
  return mirrored_.record(stream);
}

Result<void> Slot::refreshResiduals(const DeviceTable& device, const void* send, const void* recv,
                                    void* stream) {
  const bool moved = lastSend_ != nullptr && (send != lastSend_ || recv != lastRecv_);
  if (moved && checkup) checkup->hasMoved = true;
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

Result<void> Slot::resumeResiduals(const DeviceTable& device) {
  for (const Buffer* residual : {&residuals_.encode, &residuals_.reduce})
    if (*residual)
      CINCH_TRY_DEVICE(device, device.clearNow(residual->as<void>(), residual->bytes()),
                       "cannot clear a residual");
  residualsStale_ = false;
  return {};
}

void Slot::enterEpoch(uint32_t epoch) {
  residualsStale_ = residualsStale_ || epoch != epoch_;
  epoch_ = epoch;
}

Residuals Slot::residuals() const {
  Residuals pointers = residuals_.pointers();
  if (checkup && pointers.reduce != nullptr)
    pointers.reduce = residuals_.reduce.as<char>() + planInForce_.residualOffset(rule.residualType);
  return pointers;
}

uint64_t Slot::residualIdentity() const {
  if (!plan.hosts) return identity;
  const HostPlan& hosts = *plan.hosts;
  const uint64_t facts[] = {identity, hosts.nLanes(), hosts.index, hosts.nHosts, hosts.host};
  return hashBytes(reinterpret_cast<const uint8_t*>(facts), sizeof facts);
}

// Of those of the whole bucket.
std::vector<wire::Segment> Slot::ownRuns(const std::vector<wire::Segment>& runs) const {
  if (!plan.hosts) return runs;
  const wire::ShardLayout& parts = plan.hosts->parts;
  const uint32_t lane = plan.hosts->index;
  return plan.isIdle() ? std::vector<wire::Segment>()
                       : cutRuns(runs, parts.firstTile(lane), parts.shardTiles(lane));
}

Result<void> Slot::changePlan(const DeviceTable& device, const PrecisionPlan& change) {
  if (!ownedBefore_) ownedBefore_ = ownedBytes();
  auto changed = checkup->tables.change(device, plan, ownRuns(change.runs), change.id);
  if (!changed.ok()) return changed.error();
  if (changed.value().bufferBytes() > codeBytes())
    return errorf(Status::internalError, "%s: a plan of precisions takes more room than was agreed",
                  name.c_str());
  planInForce_ = changed.value();
  if (statelessPlan &&
      (isLarger(change.runs, statelessPlan->layout.codec) || hasRawTiles(change.runs)))
    statelessEndsAt_ = std::min(statelessEndsAt_, made.nCalls);
  stats->plans.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Slot::ByteRange Slot::ownedBytes() const {
  const uint64_t first = planInForce_.residualOffset(rule.residualType);
  return {first, first + planInForce_.reduceResidualBytes(rule.residualType)};
}

// A residual of stage 2 stays with its value, if that is still this rank's; what is another's from
// here on must not come back one day.
Result<void> Slot::enterPlan(const DeviceTable& device, void* stream) {
  if (!ownedBefore_) return {};
  const ByteRange before = *ownedBefore_, now = ownedBytes();
  ownedBefore_.reset();
  CINCH_TRY(checkup->tables.upload(device, stream));
  CINCH_TRY(clearResidual(device, before.first, std::min(before.end, now.first), stream));
  return clearResidual(device, std::max(before.first, now.end), before.end, stream);
}

Result<void> Slot::clearResidual(const DeviceTable& device, uint64_t firstByte, uint64_t endByte,
                                 void* stream) {
  if (!residuals_.reduce || firstByte >= endByte) return {};
  CINCH_TRY_DEVICE(
      device,
      device.clearAsync(residuals_.reduce.as<char>() + firstByte, endByte - firstByte, stream),
      "cannot clear a residual");
  return {};
}

Result<Slot::ResidualBuffers> Slot::allocateClearResiduals(const DeviceTable& device) const {
  const RelaxedCapture relaxed(device);
  auto fresh = allocateResiduals(device, capturedPlan(), false);
  if (!fresh.ok()) return fresh;
  for (const Buffer* buffer : {&fresh.value().encode, &fresh.value().reduce, &fresh.value().probe})
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
  auto* mirror = mirror_.as<Mirror>();
  CINCH_TRY_DEVICE(device, device.copyAsync(&mirror->state, state(), sizeof(SlotState), stream),
                   "cannot read a slot's figures");
  if (residuals_.probe)
    CINCH_TRY_DEVICE(
        device,
        device.copyAsync(&mirror->probe, residuals_.probe.as<void>(), sizeof(ProbeState), stream),
        "cannot read a slot's figures");
  return mirrored_.record(stream);
}

void Slot::readMirror() {
  if (!mirror_ || !mirrored_.done()) return;
  const auto* copy = mirror_.as<Mirror>();
  for (int stage = 0; stage < 2; ++stage) {
    stats->stage[stage].error.store(copy->state.error[stage], std::memory_order_relaxed);
    stats->stage[stage].power.store(copy->state.power[stage], std::memory_order_relaxed);
  }
  stats->strangers.store(copy->probe.nStrangers, std::memory_order_relaxed);
  const uint64_t known = stats->overflows.exchange(copy->probe.nOverflows);
  const bool isFirst = plan.rank == 0 && (!plan.hosts || plan.hosts->index == 0);
  if (known == 0 && copy->probe.nOverflows > 0 && isFirst) warnOfOverflow();
}

void Slot::warnOfOverflow() const {
  CINCH_WARN("EXEC",
             "%s by %s: a residual of more than %.3g times the gradient was dropped; where the "
             "report counts many, use a smaller CINCH_ERROR_FEEDBACK than %.3g, or more bits",
             name.c_str(), stats->codec.c_str(),
             std::sqrt(static_cast<double>(core::kResidualLimit)), static_cast<double>(rule.gain));
}

void Slot::countCall(const CollectivePlan& followed, bool isExamined) {
  ++calls;
  const uint64_t exactBytes = isExamined ? followed.uncompressedWireBytes() : 0;
  stats->compressed.fetch_add(1, std::memory_order_relaxed);
  stats->bytesIn.fetch_add(plan.inputBytes(), std::memory_order_relaxed);
  stats->wireBytes.fetch_add(followed.wireBytes() + exactBytes, std::memory_order_relaxed);
  stats->bitsPerValue.store(followed.bitsPerValue(), std::memory_order_relaxed);
}

std::vector<Buffer*> Slot::allBuffers() {
  std::vector<Buffer*> all = {&residuals_.encode, &residuals_.reduce, &residuals_.probe, &state_,
                              &mirror_};
  for (ResidualBuffers& captured : captured_) {
    all.push_back(&captured.encode);
    all.push_back(&captured.reduce);
    all.push_back(&captured.probe);
  }
  return all;
}

Event Slot::release(std::vector<Buffer>& buffers) {
  giveUp(buffers);
  residualsStale_ = true;
  return std::move(mirrored_);
}

void Slot::giveUp(std::vector<Buffer>& buffers) {
  for (Buffer* buffer : allBuffers()) buffers.push_back(std::move(*buffer));
  if (checkup) checkup->giveUp(buffers);
}

}  // namespace cinch
