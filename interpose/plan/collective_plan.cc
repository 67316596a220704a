#include "interpose/plan/collective_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/hash.h"

namespace cinch {
namespace {

// Of what both sides of a message must agree on.
uint32_t planIdOf(const std::array<uint64_t, 8>& facts) {
  const uint64_t hash = hashBytes(reinterpret_cast<const uint8_t*>(facts.data()), sizeof facts);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

float factorOf(OpClass op, uint32_t nRanks) {
  return op == OpClass::avg ? 1.0f / static_cast<float>(nRanks) : 1.0f;
}

void noteStrides(CollectivePlan& plan) {
  for (uint32_t index = 0; index < plan.nChunks(); ++index)
    plan.strides[index] = plan.layout.ofChunk(index).strideBytes();
}

}  // namespace

CollectivePlan planCollective(const Signature& signature, ElementType type, wire::CodecFormat codec,
                              uint32_t rank, uint32_t nRanks, Cut cut) {
  CollectivePlan plan{};
  plan.kind = signature.kind;
  const bool isFree = signature.kind == CallKind::allReduce;
  plan.isPair = isFree && cut.mayPair && nRanks == 2;
  plan.layout =
      isFree ? wire::ShardLayout{signature.count, plan.isPair ? 1 : nRanks, codec, 0, cut.nChunks}
             : wire::ShardLayout::fixed(signature.count, nRanks, codec);
  plan.launchLayout = plan.layout;
  noteStrides(plan);
  plan.type = type;
  plan.rank = rank;
  plan.planId =
      planIdOf({wire::kVersion, static_cast<uint64_t>(signature.kind), signature.count,
                static_cast<uint64_t>(type), codec.id, static_cast<uint64_t>(signature.op),
                plan.layout.nShards, plan.layout.nChunks});
  plan.factor = factorOf(signature.op, nRanks);
  return plan;
}

CollectivePlan planLane(const Signature& signature, ElementType type, wire::CodecFormat codec,
                        std::shared_ptr<const HostPlan> hosts, Cut cut) {
  Signature lane = signature;
  lane.count = hosts->ownElems();
  CollectivePlan plan = planCollective(lane, type, codec, hosts->host, hosts->nHosts, cut);
  plan.factor = factorOf(signature.op, hosts->nRanks);
  plan.hosts = std::move(hosts);
  return plan;
}

ChunkPlan CollectivePlan::chunk(uint32_t index) const {
  ChunkPlan made{layout, launchLayout, bufferBytes(index)};
  for (wire::ShardLayout* each : {&made.layout, &made.launchLayout}) {
    each->chunk = index;
    if (layout.isMixed()) each->mixedStride = strides[index];
  }
  return made;
}

uint32_t chunksOf(uint64_t count, uint32_t nShards, uint64_t chunkValues) {
  constexpr uint64_t kFewestTiles = 64;  // of a shard in a chunk: 1 or 2 % of padding
  const uint64_t byTiles = wire::ShardLayout::tilesOf(count) / (uint64_t{nShards} * kFewestTiles);
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(std::min(count / chunkValues, byTiles), 1, kMaxChunks));
}

CollectivePlan withPrecision(const CollectivePlan& plan, const wire::MixedLayout& mixed,
                             const void* tables, uint32_t planId) {
  CollectivePlan made = plan;
  made.layout = mixed.layout();
  made.launchLayout = mixed.layoutAt(tables);
  made.planId = planId;
  noteStrides(made);
  return made;
}

}  // namespace cinch
