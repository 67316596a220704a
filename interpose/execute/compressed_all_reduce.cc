#include "interpose/execute/compressed_all_reduce.h"

#include "interpose/execute/exchange.h"

namespace cinch {
namespace {

CallContext contextOf(const CommState& comm, const Slot& slot) {
  return CallContext{.layout = slot.plan.layout,
                     .type = slot.plan.type,
                     .planId = slot.plan.planId,
                     .slot = slot.index,
                     .state = slot.state(),
                     .fault = comm.resources.fault.as<uint32_t>()};
}

bool isMeasured(const Slot& slot) {
  return slot.calls % static_cast<uint64_t>(processParams().params.measureEvery) == 0;
}

EncodeLaunch encodeOf(const CommState& comm, const Slot& slot, const AllReduceCall& call) {
  return EncodeLaunch{.call = contextOf(comm, slot),
                      .input = call.send,
                      .residual = slot.encodeResidual(),
                      .gain = slot.gain,
                      .output = comm.workspace.outgoing(),
                      .skipShard = comm.rank,
                      .measure = isMeasured(slot)};
}

ReduceLaunch reduceOf(const CommState& comm, const Slot& slot, const AllReduceCall& call) {
  const AllReducePlan& plan = slot.plan;
  float* residual = slot.encodeResidual();
  return ReduceLaunch{
      .call = contextOf(comm, slot),
      .shard = plan.rank,
      .peers = comm.workspace.incoming(),
      .ownInput = static_cast<const char*>(call.send) + plan.ownByteOffset(),
      .ownResidual = residual ? residual + plan.layout.firstElem(plan.rank) : nullptr,
      .residual = slot.reduceResidual(),
      .gain = slot.gain,
      .factor = plan.factor,
      .output = comm.workspace.outgoing() + plan.shardOffset(plan.rank),
      .measure = isMeasured(slot)};
}

DecodeLaunch decodeOf(const CommState& comm, const Slot& slot, const AllReduceCall& call) {
  return DecodeLaunch{
      .call = contextOf(comm, slot), .input = comm.workspace.outgoing(), .output = call.recv};
}

Result<void> enqueueStages(CommState& comm, Slot& slot, const AllReduceCall& call) {
  const DeviceTable& device = *comm.resources.device;
  const EncodeLaunch encode = encodeOf(comm, slot, call);
  const ReduceLaunch reduce = reduceOf(comm, slot, call);
  const DecodeLaunch decode = decodeOf(comm, slot, call);

  const ShardBuffers shards{comm.workspace.outgoing(), comm.workspace.incoming(),
                            slot.plan.messageBytes()};

  // Codes of every shard but the own; what they leave out stays in the residual.
  CINCH_TRY_DEVICE(device, device.encode(&encode, call.stream), "cannot encode");
  // Shard i of every rank goes to rank i.
  CINCH_TRY(exchangeShards(comm, shards, call.stream));
  // The own shard: peers in rank order, own part exact; its encoding lies where gather wants it.
  CINCH_TRY_DEVICE(device, device.reduce(&reduce, call.stream), "cannot reduce");
  // Every rank gets every encoded sum.
  CINCH_TRY(gatherShards(comm, shards, call.stream));
  // All ranks, owners included, decode the same bytes, so that all end with the same bits.
  CINCH_TRY_DEVICE(device, device.decode(&decode, call.stream), "cannot decode");
  return {};
}

void count(Slot& slot) {
  ++slot.calls;
  slot.stats->compressed.fetch_add(1, std::memory_order_relaxed);
  slot.stats->bytesIn.fetch_add(slot.plan.inputBytes(), std::memory_order_relaxed);
  slot.stats->wireBytes.fetch_add(slot.plan.wireBytes(), std::memory_order_relaxed);
}

}  // namespace

Result<void> compressAllReduce(CommState& comm, Slot& slot, const AllReduceCall& call) {
  const DeviceTable& device = *comm.resources.device;
  const CurrentDevice current(device, comm.resources.cudaDevice);
  CINCH_TRY(comm.workspace.begin(call.stream));
  CINCH_TRY(slot.refreshResiduals(device, call.send, call.recv, call.stream));
  CINCH_TRY(enqueueStages(comm, slot, call));
  if (isMeasured(slot)) {
    slot.readMirror();
    CINCH_TRY(slot.mirrorState(device, call.stream));
  }
  CINCH_TRY(comm.workspace.end(call.stream));
  count(slot);
  return {};
}

}  // namespace cinch
