// `cinch explain --op`: which call on which machines, as the command line says it.
#pragma once

#include <string>

#include "common/result.h"
#include "interpose/policy/policy.h"
#include "tools/cinch/commands.h"
#include "tools/cinch/predict/cost_model.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cinch {

// What the user wants to know, and where each number comes from.
struct CallQuestion {
  CostedCall call;
  CostFacts facts;
  const codec::CodecInfo* codec;
  CodingRule rule;
  struct Sources {
    std::string codec, codecCost, network, latency, local, localLatency, message;
  } sources;
};

// Adds --op to the topics of `explain`, and the options that describe its call. Returns --op.
const CLI::Option* addCallOptions(CLI::App& explain, CLI::App& topic, ExplainedCall& call);

// Where the call does not say how fast the codec is, it is measured, once on a machine. The error
// names the option at fault.
Result<CallQuestion> questionOf(const ExplainedCall& call);

}  // namespace cinch
