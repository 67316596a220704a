// What NCCL has shown of its cost tables, one table for each collective and power of two of its
// size: the first that came of a call that was alone. Recording takes no lock and no memory, since
// NCCL asks on the thread that launches; any number of threads record and read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/cost_table.h"

namespace cinch::tuner {

// NCCL's float[algorithms][protocols]; what is negative cannot be used.
struct CostGrid {
  float* costs;
  int nAlgorithms;
  int nProtocols;

  bool has(Algorithm algorithm, Protocol protocol) const {
    return static_cast<int>(algorithm) < nAlgorithms && static_cast<int>(protocol) < nProtocols;
  }
  float& at(Algorithm algorithm, Protocol protocol) const {
    return costs[static_cast<int>(algorithm) * nProtocols + static_cast<int>(protocol)];
  }
};

class CostStore {
 public:
  CostStore(int nRanks, int nNodes) : nRanks_(nRanks), nNodes_(nNodes) {}

  void record(TunedCollective collective, uint64_t nBytes, int nPipeOps, const CostGrid& grid);
  // Of how many collectives and sizes there are tables.
  size_t count() const { return count_.load(std::memory_order_acquire); }
  CostTable table() const;

 private:
  enum State : int { empty, beingWritten, full };
  struct Sample {
    std::atomic<State> state{empty};
    uint64_t nBytes = 0;
    int nPipeOps = 0;
    std::array<std::array<float, kProtocols>, kAlgorithms> costs;
  };
  static constexpr size_t kSizes = 65;  // powers of two, and zero

  static void append(const Sample& sample, TunedCollective collective, CostTable& table);

  const int nRanks_;
  const int nNodes_;
  std::atomic<size_t> count_{0};
  std::array<std::array<Sample, kSizes>, kTunedCollectives> samples_;
};

}  // namespace cinch::tuner
