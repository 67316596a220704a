#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "common/param.h"
#include "tools/cinch/commands.h"
#include "tools/cinch/settings_pages.h"
#include "tools/cinch/text_table.h"

namespace cinch {
namespace {

std::string orDash(const std::string& text) {
  return text.empty() ? "-" : text;
}

void printText(const std::vector<ParamRow>& params) {
  std::vector<TextRow> rows = {{"NAME", "VALUE", "SOURCE", "DEFAULT", "RANGE", "MEANING"}};
  for (const ParamRow& param : params) {
    rows.push_back({param.name, orDash(param.value), param.source, orDash(param.fallback),
                    orDash(param.range), param.help});
  }
  printTable(rows);
}

void printJson(const ParamSet& set) {
  nlohmann::ordered_json parameters = nlohmann::ordered_json::array();
  for (const ParamRow& param : set.rows) {
    parameters.push_back({{"name", param.name},
                          {"kind", param.kind},
                          {"value", param.value},
                          {"source", param.source},
                          {"default", param.fallback},
                          {"range", param.range},
                          {"wire", param.wire},
                          {"help", param.help}});
  }
  const nlohmann::ordered_json report = {
      {"parameters", parameters}, {"warnings", set.warnings}, {"notices", set.notices}};
  fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

// As they are where no variable is set.
std::vector<ParamRow> rowsWithoutValues() {
  const char* const nothing[] = {nullptr};
  return readParams(nothing).rows;
}

}  // namespace

void printWarnings() {
  for (const std::string& warning : processParams().warnings) {
    fmt::print(stderr, "cinch: warning: {}\n", warning);
  }
  for (const std::string& notice : processParams().notices)
    fmt::print(stderr, "cinch: warning: {}\n", notice);
}

int printConfig(OutputFormat format) {
  printWarnings();
  switch (format) {
    case OutputFormat::text:
      printText(processParams().rows);
      break;
    case OutputFormat::json:
      printJson(processParams());
      break;
    case OutputFormat::markdown:
      fmt::print("{}", settingsMarkdown(rowsWithoutValues()));
      break;
  }
  return kExitOk;
}

int printManPage() {
  fmt::print("{}", settingsManPage(rowsWithoutValues(), CINCH_VERSION));
  return kExitOk;
}

}  // namespace cinch
