// Which algorithm, protocol and number of channels NCCL should use for which collectives: a table
// as CSV, with the columns of NCCL's example tuner. Pure.
//
//   collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
//
// The last two may be left out; -1 stands for any, and for NCCL's own number of channels. A
// heading, empty lines and what follows a '#' are skipped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/nccl_choices.h"
#include "common/result.h"

namespace cinch::tuner {

inline constexpr int kAny = -1;
inline constexpr size_t kMaxRules = 4096;

struct Rule {
  TunedCollective collective;
  uint64_t minBytes;
  uint64_t maxBytes;
  Algorithm algorithm;
  Protocol protocol;
  int channels = kAny;
  int nNodes = kAny;
  int nRanks = kAny;
  int nPipeOps = kAny;
  int registered = kAny;  // regBuff: whether NCCL knows the caller's buffers
  size_t line = 0;        // of the file
};

// Errors name line and column, and nothing of the text is taken then.
Result<std::vector<Rule>> parseRules(std::string_view text);

// A line that parseRules() takes, without an end.
std::string formatRule(const Rule& rule);
// The names of all columns, in their order.
std::string ruleHeading();

// Whether a rule can hold on a communicator of this shape. One that asks for registered buffers
// cannot: whether a buffer is registered is each rank's own affair, and ranks that choose
// differently hang.
bool suits(const Rule& rule, uint64_t nRanks, uint64_t nNodes);

// Whether a rule of this communicator holds for a call.
inline bool holds(const Rule& rule, uint64_t nBytes, int nPipeOps) {
  return rule.minBytes <= nBytes && nBytes <= rule.maxBytes &&
         (rule.nPipeOps == kAny || rule.nPipeOps == nPipeOps);
}

}  // namespace cinch::tuner
