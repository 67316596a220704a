#include "interpose/plan/all_reduce_plan.h"

namespace cinch {
namespace {

// FNV-1a over the words that both sides of a message must agree on.
uint32_t hashWords(const uint64_t* words, int n) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int i = 0; i < n; ++i)
    for (int byte = 0; byte < 8; ++byte)
      hash = (hash ^ (words[i] >> (8 * byte) & 0xff)) * 0x100000001b3u;
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

}  // namespace

AllReducePlan planAllReduce(uint64_t count, ElementType type, wire::Codec codec, bool average,
                            uint32_t rank, uint32_t nRanks) {
  const uint64_t words[] = {wire::kVersion,      count,   static_cast<uint64_t>(type),
                            wire::bitsOf(codec), average, nRanks};
  AllReducePlan plan{};
  plan.layout = wire::ShardLayout{count, nRanks, codec};
  plan.type = type;
  plan.rank = rank;
  plan.planId = hashWords(words, sizeof words / sizeof words[0]);
  plan.factor = average ? 1.0f / static_cast<float>(nRanks) : 1.0f;
  return plan;
}

}  // namespace cinch
