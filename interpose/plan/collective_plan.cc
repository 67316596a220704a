#include "interpose/plan/collective_plan.h"

#include <array>

#include "common/hash.h"

namespace cinch {
namespace {

// Of what both sides of a message must agree on.
uint32_t planIdOf(const std::array<uint64_t, 7>& facts) {
  const uint64_t hash = hashBytes(reinterpret_cast<const uint8_t*>(facts.data()), sizeof facts);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

}  // namespace

CollectivePlan planCollective(const Signature& signature, ElementType type, wire::CodecFormat codec,
                              uint32_t rank, uint32_t nRanks) {
  CollectivePlan plan{};
  plan.kind = signature.kind;
  plan.layout = signature.kind == CallKind::allReduce
                    ? wire::ShardLayout{signature.count, nRanks, codec}
                    : wire::ShardLayout::fixed(signature.count, nRanks, codec);
  plan.launchLayout = plan.layout;
  plan.type = type;
  plan.rank = rank;
  plan.planId = planIdOf({wire::kVersion, static_cast<uint64_t>(signature.kind), signature.count,
                          static_cast<uint64_t>(type), codec.id,
                          static_cast<uint64_t>(signature.op), nRanks});
  plan.factor = signature.op == OpClass::avg ? 1.0f / static_cast<float>(nRanks) : 1.0f;
  return plan;
}

CollectivePlan withPrecision(const CollectivePlan& plan, const wire::MixedLayout& mixed,
                             const void* tables, uint32_t planId) {
  CollectivePlan made = plan;
  made.layout = mixed.layout();
  made.launchLayout = mixed.layoutAt(tables);
  made.planId = planId;
  return made;
}

}  // namespace cinch
