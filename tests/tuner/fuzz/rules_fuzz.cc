// libFuzzer target: any bytes as a file of rules. A rule that is taken is within its bounds, and is
// the same when it is written and read again.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tuner_plugin/rules.h"

namespace cinch::tuner {
namespace {

// The fuzzer keeps the input of a process that aborts.
void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

void check(const Rule& rule) {
  require(rule.minBytes <= rule.maxBytes, "a range has a size");
  require(rule.channels == kAny || rule.channels >= 1, "channels are counted from 1");
  const auto again = parseRules(formatRule(rule));
  require(again.ok() && again.value().size() == 1, "a rule is read again");
  require(formatRule(again.value()[0]) == formatRule(rule), "a rule stays the same");
}

}  // namespace
}  // namespace cinch::tuner

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cinch::tuner;
  const auto rules = parseRules({reinterpret_cast<const char*>(data), size});
  if (!rules.ok()) return 0;
  require(rules.value().size() <= kMaxRules, "rules are bounded");
  for (const Rule& rule : rules.value()) check(rule);
  return 0;
}
