#include "tuner_plugin/cost_store.h"

#include <bit>
#include <cmath>

namespace cinch::tuner {
namespace {

constexpr float kUnusable = -1;

}  // namespace

void CostStore::record(TunedCollective collective, uint64_t nBytes, int nPipeOps,
                       const CostGrid& grid) {
  if (nPipeOps > 1) return;  // what groups add is no matter of the call
  Sample& sample = samples_[static_cast<size_t>(collective)][std::bit_width(nBytes)];
  if (sample.state.load(std::memory_order_relaxed) != empty) return;
  State expected = empty;
  if (!sample.state.compare_exchange_strong(expected, beingWritten)) return;
  sample.nBytes = nBytes;
  sample.nPipeOps = nPipeOps;
  for (int a = 0; a < kAlgorithms; ++a)
    for (int p = 0; p < kProtocols; ++p) {
      const auto algorithm = static_cast<Algorithm>(a);
      const auto protocol = static_cast<Protocol>(p);
      sample.costs[a][p] = grid.has(algorithm, protocol) ? grid.at(algorithm, protocol) : kUnusable;
    }
  sample.state.store(full, std::memory_order_release);
  count_.fetch_add(1, std::memory_order_release);
}

void CostStore::append(const Sample& sample, TunedCollective collective, CostTable& table) {
  if (sample.state.load(std::memory_order_acquire) != full) return;
  for (int a = 0; a < kAlgorithms; ++a)
    for (int p = 0; p < kProtocols; ++p) {
      const float cost = sample.costs[a][p];
      if (std::isfinite(cost) && cost >= 0)
        table.rows.push_back({collective, sample.nBytes, sample.nPipeOps, static_cast<Algorithm>(a),
                              static_cast<Protocol>(p), cost});
    }
}

CostTable CostStore::table() const {
  CostTable table{nRanks_, nNodes_, {}};
  for (int collective = 0; collective < kTunedCollectives; ++collective)
    for (const Sample& sample : samples_[collective])
      append(sample, static_cast<TunedCollective>(collective), table);
  return table;
}

}  // namespace cinch::tuner
