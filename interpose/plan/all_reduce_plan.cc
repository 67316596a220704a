#include "interpose/plan/all_reduce_plan.h"

#include <array>

#include "common/hash.h"

namespace cinch {
namespace {

// Of what both sides of a message must agree on.
uint32_t planIdOf(const std::array<uint64_t, 6>& facts) {
  const uint64_t hash = hashBytes(reinterpret_cast<const uint8_t*>(facts.data()), sizeof facts);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

}  // namespace

AllReducePlan planAllReduce(uint64_t count, ElementType type, wire::Codec codec, bool average,
                            uint32_t rank, uint32_t nRanks) {
  AllReducePlan plan{};
  plan.layout = wire::ShardLayout{count, nRanks, codec};
  plan.type = type;
  plan.rank = rank;
  plan.planId = planIdOf(
      {wire::kVersion, count, static_cast<uint64_t>(type), wire::bitsOf(codec), average, nRanks});
  plan.factor = average ? 1.0f / static_cast<float>(nRanks) : 1.0f;
  return plan;
}

}  // namespace cinch
