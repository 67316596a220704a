// The pages that describe Cinch's parameters, made from their table. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/param.h"

namespace cinch {

// docs/config.md.
std::string settingsMarkdown(const std::vector<ParamRow>& rows);

// cinch(7), for man: roff with man(7)'s macros.
std::string settingsManPage(const std::vector<ParamRow>& rows, const std::string& version);

}  // namespace cinch
