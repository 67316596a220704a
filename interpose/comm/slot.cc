#include "interpose/comm/slot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/hash.h"
#include "common/log.h"
#include "interpose/comm/memory_reserve.h"
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
  std::vector<Buffer> dropped;
  if (!done.ok()) giveUp(dropped);
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

Result<void> Slot::allocateBuffers(const DeviceTable& device) {
  if (checkup) CINCH_TRY(checkup->allocate(device, plan));
  if (hasFeedback()) CINCH_TRY(residuals.prepare(device));
  auto state =
      MemoryReserve::instance().allocate(device, 2 * sizeof(SlotState), Buffer::Where::device);
  if (!state.ok()) return state.error();
  auto mirror = MemoryReserve::instance().allocate(device, sizeof(Mirror), Buffer::Where::host);
  if (!mirror.ok()) return mirror.error();
  auto event = Event::create(device);
  if (!event.ok()) return event.error();
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
  return mirrored_.record(stream);
}

Result<void> Slot::takeResiduals(const DeviceTable& device) {
  return hasFeedback() ? residuals.take(device, rangeOf(planInForce_)) : Result<void>();
}

Result<Residuals> Slot::residualsOfCall(const DeviceTable& device, const void* send,
                                        const void* recv, void* stream) {
  const auto refreshed = residuals.refresh(device, send, recv, stream);
  CINCH_TRY(refreshed);
  if (refreshed.value().hasMoved && checkup) checkup->hasMoved = true;
  if (refreshed.value().isZeroed && calls > 0)
    stats->residualResets.fetch_add(1, std::memory_order_relaxed);
  return residuals.pointers();
}

Residuals Slot::residualsInCapture(const DeviceTable& device, uint64_t id) {
  if (!hasFeedback()) return {};
  const auto found = residuals.captured(device, rangeOf(capturedPlan()), id);
  if (found.ok()) return found.value();
  CINCH_WARN("EXEC", "%s: no error feedback in a captured call: %s", name.c_str(),
             found.error().message.c_str());
  return {};
}

ResidualRange Slot::rangeOf(const CollectivePlan& of) const {
  const ResidualType type = rule.residualType;
  const uint64_t first = of.residualOffset(type);
  return {of.encodeResidualBytes(type), first, first + of.reduceResidualBytes(type)};
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
  auto changed = checkup->tables.change(device, plan, ownRuns(change.runs), change.id);
  if (!changed.ok()) return changed.error();
  if (changed.value().bufferBytes() > codeBytes())
    return errorf(Status::internalError, "%s: a plan of precisions takes more room than was agreed",
                  name.c_str());
  planInForce_ = changed.value();
  hasChanged_ = true;
  if (statelessPlan &&
      (isLarger(change.runs, statelessPlan->layout.codec) || hasRawTiles(change.runs)))
    statelessEndsAt_ = std::min(statelessEndsAt_, made.nCalls);
  stats->plans.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Result<void> Slot::enterPlan(const DeviceTable& device, void* stream) {
  if (!std::exchange(hasChanged_, false)) return {};
  CINCH_TRY(checkup->tables.upload(device, stream));
  if (const auto moved = residuals.move(device, rangeOf(planInForce_), stream); !moved.ok())
    CINCH_WARN("EXEC", "%s: no error feedback of what this rank sums up: %s", name.c_str(),
               moved.error().message.c_str());
  return {};
}

Result<void> Slot::mirrorState(const DeviceTable& device, void* stream) {
  auto* mirror = mirror_.as<Mirror>();
  CINCH_TRY_DEVICE(device, device.copyAsync(&mirror->state, state(), sizeof(SlotState), stream),
                   "cannot read a slot's figures");
  if (const ProbeState* probe = residuals.pointers().probe)
    CINCH_TRY_DEVICE(device, device.copyAsync(&mirror->probe, probe, sizeof(ProbeState), stream),
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

Event Slot::release(std::vector<Buffer>& buffers) {
  giveUp(buffers);
  return std::move(mirrored_);
}

void Slot::giveUp(std::vector<Buffer>& buffers) {
  buffers.push_back(std::move(state_));
  buffers.push_back(std::move(mirror_));
  residuals.giveUp(buffers);
  if (checkup) checkup->giveUp(buffers);
}

}  // namespace cinch
