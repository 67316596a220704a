// What `cinch doctor` says: a line for each thing that it has looked at.
#pragma once

#include <string>
#include <vector>

namespace cinch::doctor {

enum class Verdict { pass, warn, fail, skip };

struct Check {
  std::string name;
  Verdict verdict = Verdict::pass;
  std::string found;
  std::string fix;  // of what is a warning or a failure: what can be done about it
};

using Checks = std::vector<Check>;

std::string nameOf(Verdict verdict);
bool hasFailed(const Checks& checks);

// A line for each check, and one that counts them.
std::string viewText(const Checks& checks);
// {"format": 1, "checks": [{"name", "verdict", "found", "fix"}]}
std::string viewJson(const Checks& checks);

}  // namespace cinch::doctor
