#include "tools/cinch/settings_pages.h"

#include <fmt/core.h>

namespace cinch {
namespace {

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

constexpr const char* kIntroduction =
    "# Parameters\n\n"
    "Cinch reads these environment variables once, when the program makes its first "
    "communicator.\n"
    "A value that is not valid is replaced by the default, and a warning says so.\n"
    "`cinch config` prints them with the values in force.\n\n"
    "*Agreed*: all ranks of a communicator must have the same value; where they differ, Cinch\n"
    "passes that communicator's calls to NCCL unchanged and names the rank.\n\n"
    "Nothing has to be set. An AllReduce whose place in the training step is known gets adaptive\n"
    "precision with error feedback, a ReduceScatter 5 bits, and what PyTorch's autograd threads\n"
    "sum up at an ambiguous place 8 bits. Everything else passes, also calls in CUDA graphs, and\n"
    "benchmarks that make one call over and over, as nccl-tests do: `CINCH_SLOTS=signature` is\n"
    "for those.\n"
    "If training steps are faster plain, all calls pass: both are timed, unless CINCH_WHEN is "
    "always.\n"
    "[architecture.md](architecture.md#places) says what is known of a place, and how.\n\n"
    "| name | default | range | agreed | meaning |\n"
    "|---|---|---|---|---|\n";

// Text in which roff finds nothing of its own: a backslash, a hyphen that is no minus, and a
// control line, which begins with a dot or an apostrophe.
std::string roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  const bool isControl = !escaped.empty() && (escaped[0] == '.' || escaped[0] == '\'');
  return isControl ? "\\&" + escaped : escaped;
}

std::string entry(const ParamRow& row) {
  std::string text = fmt::format(".TP\n.B {}\n{}.\n", roff(row.name), roff(row.help));
  if (!row.range.empty()) text += fmt::format("Range: {}.\n", roff(row.range));
  if (*row.fallback != '\0') text += fmt::format("Default: {}.\n", roff(row.fallback));
  if (row.wire) text += "All ranks of a communicator must have the same value.\n";
  return text;
}

constexpr const char* kManBody =
    ".SH NAME\n"
    "cinch \\- compress the collectives of unmodified NCCL programs\n"
    ".SH SYNOPSIS\n"
    ".B cinch run\n[\\-\\-net] [\\-\\-tuner] \\-\\- COMMAND [ARGUMENTS...]\n.br\n"
    ".B LD_PRELOAD=libcinch.so\nCOMMAND [ARGUMENTS...]\n"
    ".SH DESCRIPTION\n"
    "What goes over the network in AllReduce and ReduceScatter is compressed, with error feedback "
    "and a precision for each layer.\n"
    "Calls that Cinch does not recognise, and those that plain NCCL does faster, are passed to "
    "NCCL "
    "unchanged.\n"
    "Nothing has to be set.\n"
    ".B cinch \\-\\-help\nlists the commands.\n"
    ".SH ENVIRONMENT\n"
    "These are read once, when the program makes its first communicator.\n"
    "A value that is not valid is replaced by the default, and a warning says so.\n"
    ".B cinch config\nprints them with the values in force.\n";

}  // namespace

std::string settingsMarkdown(const std::vector<ParamRow>& rows) {
  std::string text = kIntroduction;
  for (const ParamRow& row : rows) {
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.name, cell(row.fallback),
                        cell(row.range), row.wire ? "yes" : "", row.help);
  }
  return text + "\nThis page is the output of `cinch config --markdown`.\n";
}

std::string settingsManPage(const std::vector<ParamRow>& rows, const std::string& version) {
  std::string text = fmt::format(".TH CINCH 7 \"\" \"Cinch {}\"\n", roff(version)) + kManBody;
  for (const ParamRow& row : rows) text += entry(row);
  return text + ".SH SEE ALSO\nThe pages in docs, which come with the sources.\n";
}

}  // namespace cinch
