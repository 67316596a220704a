// The results as JSON, as schema.json describes.
#pragma once

#include <string>
#include <vector>

#include "tools/cinch/bench/results.h"

namespace cinch::bench {

std::string formatJson(const RunFacts& facts, const std::vector<RankPlace>& places,
                       const std::vector<Row>& rows);

}  // namespace cinch::bench
