#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/text_table.h"
#include "tools/cinch/doctor/check.h"

namespace cinch::doctor {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;  // raised when a field changes its meaning or goes

auto count(const Checks& checks, Verdict verdict) {
  return std::count_if(checks.begin(), checks.end(),
                       [=](const Check& check) { return check.verdict == verdict; });
}

}  // namespace

std::string nameOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::warn:
      return "warn";
    case Verdict::fail:
      return "fail";
    case Verdict::skip:
      return "skip";
  }
  return {};
}

bool hasFailed(const Checks& checks) {
  return count(checks, Verdict::fail) > 0;
}

std::string viewText(const Checks& checks) {
  std::string text;
  for (const Check& check : checks) {
    const std::string fix = check.fix.empty() ? "" : ". Fix: " + check.fix;
    text += fmt::format("{:4}  {:13}  {}\n", nameOf(check.verdict), check.name,
                        oneLine(check.found + fix));
  }
  return text + fmt::format("{} passed, {} warnings, {} failed, {} skipped\n",
                            count(checks, Verdict::pass), count(checks, Verdict::warn),
                            count(checks, Verdict::fail), count(checks, Verdict::skip));
}

std::string viewJson(const Checks& checks) {
  Json list = Json::array();
  for (const Check& check : checks) {
    list.push_back({{"name", check.name},
                    {"verdict", nameOf(check.verdict)},
                    {"found", check.found},
                    {"fix", check.fix}});
  }
  const Json report = {{"format", kFormat}, {"checks", list}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cinch::doctor
