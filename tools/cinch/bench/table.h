// The table of nccl-tests, with columns of our own at the end of each line.
#pragma once

#include <string>

#include "tools/cinch/bench/results.h"

namespace cinch::bench {

// All lines before the first row; `places` has one entry for each rank.
std::string tableHead(const RunFacts& facts, const std::vector<RankPlace>& places);
std::string tableRow(const Row& row);
std::string tableFoot(const Totals& totals, const std::string& collective);

}  // namespace cinch::bench
