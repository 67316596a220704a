#include "interpose/execute/stages.h"

#include "interpose/execute/checkup.h"

namespace cinch {
namespace {

const DeviceTable& deviceOf(const BatchItem& item) {
  return *item.comm->resources.device;
}

bool isCaptured(const BatchItem& item) {
  return item.captureId != 0;
}

CallContext contextOf(const BatchItem& item) {
  const Slot& slot = *item.slot;
  return CallContext{.layout = item.plan.launchLayout,
                     .type = item.plan.type,
                     .planId = item.plan.planId,
                     .slot = static_cast<uint32_t>(slot.identity),
                     .state = item.turn.isQuick() ? slot.quickState() : slot.state(),
                     .fault = item.comm->resources.fault.as<uint32_t>()};
}

// The figures of captured calls could not be read back: nothing of the host runs when they do.
bool isMeasured(const BatchItem& item) {
  const auto every = static_cast<uint64_t>(processParams().params.measureEvery);
  return !isCaptured(item) && !item.turn.isQuick() &&
         (item.examined || item.slot->calls % every == 0);
}

CodingRule ruleOf(const BatchItem& item) {
  CodingRule rule = item.turn.isQuick() ? CodingRule{} : item.slot->rule;
  rule.measure = isMeasured(item);
  return rule;
}

EncodeLaunch encodeAllButOwn(const BatchItem& item) {
  return EncodeLaunch{.call = contextOf(item),
                      .input = item.call.send,
                      .inputFactor = item.factor,
                      .residual = item.residuals.encode,
                      .rule = ruleOf(item),
                      .output = shardsOf(item).outgoing,
                      .skipShard = item.comm->rank};
}

EncodeLaunch encodeOwn(const BatchItem& item) {
  EncodeLaunch launch = encodeAllButOwn(item);
  const CollectivePlan& plan = item.plan;
  launch.call.layout = plan.ownShard();
  launch.output += plan.shardOffset(plan.rank);
  launch.skipShard = -1;
  return launch;
}

ReduceLaunch reduceOf(const BatchItem& item) {
  const CollectivePlan& plan = item.plan;
  const ShardBuffers shards = shardsOf(item);
  return ReduceLaunch{
      .call = contextOf(item),
      .shard = plan.rank,
      .peers = shards.incoming,
      .ownInput = static_cast<const char*>(item.call.send) + plan.ownByteOffset(),
      .inputFactor = item.factor,
      .ownResidual = item.residuals.encode,
      .residual = item.residuals.reduce,
      .rule = ruleOf(item),
      .factor = plan.factor,
      .output = plan.gathers() ? shards.outgoing + plan.shardOffset(plan.rank) : nullptr,
      .values = plan.gathers() ? nullptr : item.call.recv};
}

DecodeLaunch decodeOf(const BatchItem& item) {
  return DecodeLaunch{
      .call = contextOf(item), .input = shardsOf(item).outgoing, .output = item.call.recv};
}

ProbeLaunch probeOf(const BatchItem& item) {
  return ProbeLaunch{.call = contextOf(item),
                     .input = item.call.send,
                     .inputFactor = item.factor,
                     .residual = item.residuals.encode,
                     .residualType = item.slot->rule.residualType,
                     .probe = item.residuals.probe};
}

// Nothing of another buffer's leftovers may be added to this one.
Result<void> probeInput(const BatchItem& item) {
  if (item.residuals.probe == nullptr) return {};
  const DeviceTable& device = deviceOf(item);
  const ProbeLaunch launch = probeOf(item);
  CINCH_TRY_DEVICE(device, device.probe(&launch, item.call.stream), "cannot probe a buffer");
  return {};
}

Result<void> takeResiduals(BatchItem& item) {
  Slot& slot = *item.slot;
  if (item.turn.isQuick()) return {};
  if (isCaptured(item)) {
    item.residuals = slot.capturedResiduals(deviceOf(item), item.captureId);
    return {};
  }
  item.residuals = slot.residuals();
  return slot.refreshResiduals(deviceOf(item), item.call.send, item.call.recv, item.call.stream);
}

// A captured call is counted once, however often its graph is launched.
Result<void> finishCall(BatchItem& item) {
  Slot& slot = *item.slot;
  if (isMeasured(item)) {
    slot.readMirror();
    CINCH_TRY(slot.mirrorState(deviceOf(item), item.call.stream));
  }
  slot.countCall(item.plan, item.examined.has_value());
  return {};
}

}  // namespace

ShardBuffers shardsOf(const BatchItem& item) {
  const Workspace& workspace = item.comm->workspace;
  return {workspace.outgoing() + item.use.offset, workspace.incoming() + item.use.offset,
          item.plan.messageBytes()};
}

Result<void> encodeStage(BatchItem& item) {
  const DeviceTable& device = deviceOf(item);
  const CurrentDevice current(device, item.comm->resources.cudaDevice);
  CINCH_TRY(item.comm->workspace.begin(item.call.stream, item.captureId));
  if (item.connectOnly) return {};
  if (!isCaptured(item)) CINCH_TRY(item.slot->enterPlan(device, item.call.stream));
  CINCH_TRY(takeResiduals(item));
  CINCH_TRY(probeInput(item));
  CINCH_TRY(noteInput(item));
  const EncodeLaunch launch = item.plan.exchanges() ? encodeAllButOwn(item) : encodeOwn(item);
  CINCH_TRY_DEVICE(device, device.encode(&launch, item.call.stream), "cannot encode");
  return {};
}

Result<void> reduceStage(BatchItem& item) {
  if (item.connectOnly || !item.plan.exchanges()) return {};
  const DeviceTable& device = deviceOf(item);
  const CurrentDevice current(device, item.comm->resources.cudaDevice);
  const ReduceLaunch launch = reduceOf(item);
  CINCH_TRY_DEVICE(device, device.reduce(&launch, item.call.stream), "cannot reduce");
  return {};
}

Result<void> decodeStage(BatchItem& item) {
  const DeviceTable& device = deviceOf(item);
  const CurrentDevice current(device, item.comm->resources.cudaDevice);
  if (!item.connectOnly && item.plan.gathers()) {
    const DecodeLaunch launch = decodeOf(item);
    CINCH_TRY_DEVICE(device, device.decode(&launch, item.call.stream), "cannot decode");
  }
  if (!item.connectOnly) {
    endTurn(*item.comm, item.turn, item.call.stream, true);
    CINCH_TRY(noteResult(item));
    CINCH_TRY(finishCall(item));
  }
  return item.comm->workspace.end(item.call.stream, item.captureId);
}

}  // namespace cinch
