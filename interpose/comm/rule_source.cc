#include "interpose/comm/rule_source.h"

#include "common/param.h"
#include "common/text_file.h"

namespace cinch {
namespace {

Error of(const std::string& source, const Error& error) {
  return errorf(error.status, "%s: %s", source.c_str(), error.message.c_str());
}

}  // namespace

Result<Rules> readRules(const std::string& setting) {
  if (setting.find('/') == std::string::npos) {
    auto rules = parseRules(setting);
    return rules.ok() ? rules : of("CINCH_RULES", rules.error());
  }
  const auto text = readTextFile(setting);
  if (!text.ok()) return of("CINCH_RULES=" + setting, text.error());
  auto rules = parseRuleFile(text.value());
  return rules.ok() ? rules : of("CINCH_RULES=" + setting, rules.error());
}

const Result<Rules>& processRules() {
  // Never destroyed: communicators may outlive the process's statics.
  static const auto* const rules = new Result<Rules>(readRules(processParams().params.rules));
  return *rules;
}

}  // namespace cinch
