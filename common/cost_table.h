// NCCL's own estimates of how long its collectives take, as a file: written by the tuner plugin,
// whom NCCL shows them, for whoever weighs a collective of NCCL's against something else.
//
//   # comments
//   cinch-costs,1,RANKS,NODES
//   COLLECTIVE,BYTES,PIPE_OPS,ALGORITHM,PROTOCOL,MICROSECONDS
//
// A combination that NCCL cannot use has no line. The parser takes whatever it is given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/nccl_choices.h"
#include "common/result.h"

namespace cinch {

struct CostRow {
  TunedCollective collective;
  uint64_t nBytes;  // of the larger of the two buffers
  int nPipeOps;     // NCCL's measure of how many collectives the group has
  Algorithm algorithm;
  Protocol protocol;
  float microseconds;
  bool operator==(const CostRow&) const = default;
};

struct CostTable {
  int nRanks = 0;
  int nNodes = 0;
  std::vector<CostRow> rows;
};

inline constexpr size_t kMaxCostRows = 1 << 14;

std::string formatCostTable(const CostTable& table);

// Errors name the line.
Result<CostTable> parseCostTable(std::string_view text);

// What NCCL expects of its fastest combination, by the table.
struct ExpectedCost {
  Algorithm algorithm;
  Protocol protocol;
  double microseconds;
};
// Between two sizes that the table has, in proportion, with the combination of the larger one.
// Nothing outside of the table's sizes.
std::optional<ExpectedCost> fastestIn(const CostTable& table, TunedCollective collective,
                                      uint64_t nBytes);

// Where this host keeps the table of communicators of this shape, in the folder of cacheFolder().
std::string costTablePath(const std::string& folder, int nRanks, int nNodes);

}  // namespace cinch
