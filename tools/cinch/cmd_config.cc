#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "common/param.h"
#include "tools/cinch/commands.h"
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
  const nlohmann::ordered_json report = {{"parameters", parameters}, {"warnings", set.warnings}};
  fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

// As code in a table cell, where a bar would end the cell.
std::string cell(const std::string& text) {
  if (text.empty()) return "";
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return "`" + escaped + "`";
}

void printMarkdown() {
  const char* const nothing[] = {nullptr};
  fmt::print(
      "# Parameters\n\n"
      "Cinch reads these environment variables once, when the program makes its first "
      "communicator.\n"
      "A value that is not valid is replaced by the default, and a warning says so.\n"
      "`cinch config` prints them with the values in force.\n\n"
      "*Agreed*: all ranks of a communicator must have the same value; where they differ, Cinch\n"
      "passes that communicator's calls to NCCL unchanged and names the rank.\n\n"
      "Nothing has to be set. An AllReduce whose place in the training step is known gets adaptive\n"
      "precision with error feedback, a ReduceScatter 8 bits; averages whose place is ambiguous get\n"
      "8 bits without feedback. Everything else passes, also calls in CUDA graphs, and benchmarks\n"
      "that make one call over and over, as nccl-tests do: `CINCH_SLOTS=signature` is for those.\n"
      "Calls that plain NCCL does faster pass as well: both are timed, unless CINCH_STRATEGY says "
      "sra.\n"
      "[architecture.md](architecture.md#places) says what is known of a place, and how.\n\n"
      "| name | default | range | agreed | meaning |\n"
      "|---|---|---|---|---|\n");
  for (const ParamRow& param : readParams(nothing).rows) {
    fmt::print("| `{}` | {} | {} | {} | {} |\n", param.name, cell(param.fallback),
               cell(param.range), param.wire ? "yes" : "", param.help);
  }
  fmt::print("\nThis page is the output of `cinch config --markdown`.\n");
}

}  // namespace

void printWarnings() {
  for (const std::string& warning : processParams().warnings) {
    fmt::print(stderr, "cinch: warning: {}\n", warning);
  }
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
      printMarkdown();
      break;
  }
  return kExitOk;
}

}  // namespace cinch
