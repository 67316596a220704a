// The rules of this process, from CINCH_RULES.
#pragma once

#include <string>

#include "common/result.h"
#include "interpose/policy/rules.h"

namespace cinch {

// The rules that `setting` holds, or the file that it names: a path has a '/', rules have none.
Result<Rules> readRules(const std::string& setting);

// CINCH_RULES, read at the first call. Where it cannot be followed this process refuses to take
// part in compression. Thread-safe.
const Result<Rules>& processRules();

}  // namespace cinch
