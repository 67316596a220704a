// What codecs cost on this machine's CPU, as a text that is kept in CINCH_CACHE_DIR: each is
// measured once. Pure, but for costsPath().
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/result.h"
#include "tools/cinch/predict/cost_model.h"

namespace cinch {

struct KeptCost {
  CodecCost cost;
  std::string date;  // when it was measured, "2026-11-24"
};

struct CodecCosts {
  std::string machine;                    // on which they were measured, and by which version
  std::map<std::string, KeptCost> costs;  // by codecCostKey()
};

// What a cost depends on beside the machine.
std::string codecCostKey(const codec::CodecInfo& codec, ElementType type, const CodingRule& rule);

// JSON; an error says what is wrong with it.
std::string formatCodecCosts(const CodecCosts& costs);
Result<CodecCosts> parseCodecCosts(std::string_view text);

// Of this host, in the folder of cacheFolder().
std::string codecCostsPath(const std::string& folder);

}  // namespace cinch
