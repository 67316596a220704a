#include "interpose/plan/host_plan.h"

#include <unordered_map>

namespace cinch {
namespace {

bool hasFewerRanks(const std::vector<int>& a, const std::vector<int>& b) {
  return a.size() < b.size();
}

uint32_t placeOf(int rank, const std::vector<int>& ranks) {
  return static_cast<uint32_t>(std::ranges::find(ranks, rank) - ranks.begin());
}

uint32_t hostOf(int rank, const Hosts& hosts) {
  const auto found = std::ranges::find_if(hosts, [&](const std::vector<int>& local) {
    return std::ranges::binary_search(local, rank);
  });
  return static_cast<uint32_t>(found - hosts.begin());
}

}  // namespace

Hosts hostsOf(std::span<const uint64_t> hostIds) {
  Hosts hosts;
  std::unordered_map<uint64_t, size_t> places;
  for (size_t rank = 0; rank < hostIds.size(); ++rank) {
    const size_t place = places.try_emplace(hostIds[rank], hosts.size()).first->second;
    if (place == hosts.size()) hosts.emplace_back();
    hosts[place].push_back(static_cast<int>(rank));
  }
  return hosts;
}

bool mayHaveLanes(const Hosts& hosts) {
  constexpr size_t kMostPerLane = 4;
  if (hosts.size() < 2) return false;
  const auto [fewest, most] = std::ranges::minmax_element(hosts, hasFewerRanks);
  return most->size() > 1 && most->size() <= kMostPerLane * fewest->size();
}

HostPlan planHosts(const Hosts& hosts, int rank, uint64_t count, ElementType type) {
  const auto [fewest, most] = std::ranges::minmax_element(hosts, hasFewerRanks);
  const uint64_t nLanes = std::min(fewest->size(), wire::ShardLayout::tilesOf(count));
  HostPlan plan{.parts = {count, static_cast<uint32_t>(nLanes), {}},
                .type = type,
                .nRanks = 0,
                .nHosts = static_cast<uint32_t>(hosts.size()),
                .mostLocal = static_cast<uint32_t>(most->size()),
                .host = hostOf(rank, hosts),
                .index = 0,
                .local = {},
                .owners = {}};
  for (const std::vector<int>& local : hosts) plan.nRanks += static_cast<uint32_t>(local.size());
  plan.local = hosts[plan.host];
  plan.index = placeOf(rank, plan.local);
  if (plan.ownsLane())
    for (const std::vector<int>& local : hosts) plan.owners.push_back(local[plan.index]);
  return plan;
}

}  // namespace cinch
