// Where rules come from: the user's own file, and what `cinch tune` has measured.
#pragma once

#include <string>
#include <vector>

#include "common/param.h"
#include "tuner_plugin/tuner.h"

namespace cinch::tuner {

// Where `cinch tune` writes and the plugin reads; empty where there is no such folder.
std::string measuredRulesPath(const Params& params);

// Both files, the user's first, as they are now. One that is not there, or is bad, is left out
// whole; a line in the log says what is used, with a hash that must be the same on all hosts.
std::vector<RuleFile> readRuleFiles(const Params& params);

}  // namespace cinch::tuner
