#include "tools/cinch/tune/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "common/text_table.h"
#include "tools/cinch/bench/plot.h"

namespace cinch::tune {
namespace {

std::set<TunedCollective> collectivesOf(std::span<const Verdict> verdicts) {
  std::set<TunedCollective> collectives;
  for (const Verdict& verdict : verdicts) collectives.insert(verdict.collective);
  return collectives;
}

// Columns: size, NCCL's own choice, the better of the two.
std::string dataOf(std::span<const Verdict> verdicts, TunedCollective collective) {
  std::string text = fmt::format("${} << END\n", nameOf(collective));
  for (const Verdict& verdict : verdicts)
    if (verdict.collective == collective)
      text += fmt::format("{} {} {}\n", verdict.nBytes, verdict.own,
                          verdict.choice ? verdict.chosen : verdict.own);
  return text + "END\n";
}

}  // namespace

std::string describeJob(const Measurement& measured) {
  return fmt::format("{} ranks on {} node{}", measured.nRanks, measured.nNodes,
                     measured.nNodes == 1 ? "" : "s");
}

std::string verdictTable(std::span<const Verdict> verdicts) {
  std::vector<TableRow> rows = {
      {"collective", "bytes", "NCCL us", "noise %", "chosen us", "faster by %", "choice"}};
  for (const Verdict& verdict : verdicts) {
    const bool isChosen = verdict.choice.has_value();
    rows.push_back(
        {nameOf(verdict.collective), std::to_string(verdict.nBytes), shortNumber(verdict.own),
         fmt::format("{:.1f}", verdict.noise * 100), isChosen ? shortNumber(verdict.chosen) : "-",
         isChosen ? fmt::format("{:.1f}", (verdict.own / verdict.chosen - 1) * 100) : "-",
         isChosen ? describe(*verdict.choice) : "NCCL's own"});
  }
  return formatTable(rows);
}

std::string plotScript(std::span<const Verdict> verdicts, const std::string& title,
                       const std::string& file) {
  const std::set<TunedCollective> collectives = collectivesOf(verdicts);
  std::string text = bench::plotOutput(file);
  for (const TunedCollective collective : collectives) text += dataOf(verdicts, collective);
  text += fmt::format(
      "set multiplot layout {},1 title {} noenhanced\n"
      "set logscale xy\nset logscale x 2\nset xlabel 'size (bytes)'\nset format x '%.0b%B'\n"
      "set grid\nset key left top\nset ylabel 'time of a call (us)'\n",
      std::max<size_t>(collectives.size(), 1), bench::quotedForPlot(title));
  for (const TunedCollective collective : collectives) {
    const std::string name = nameOf(collective);
    text += fmt::format(
        "set title '{0}'\n"
        "plot ${0} using 1:2 with linespoints title 'NCCL', "
        "${0} using 1:3 with linespoints title 'with these rules'\n",
        name);
  }
  return text + "unset multiplot\n";
}

std::string ruleFile(std::span<const tuner::Rule> before, std::span<const tuner::Rule> rules,
                     std::span<const Verdict> verdicts, const Measurement& measured) {
  const std::set<TunedCollective> replaced = collectivesOf(verdicts);
  const auto stays = [&](const tuner::Rule& rule) {
    return rule.nRanks != measured.nRanks || rule.nNodes != measured.nNodes ||
           !replaced.contains(rule.collective);
  };
  std::string text = fmt::format(
      "# Written by cinch tune, last with NCCL {} on {}: what was faster than NCCL's\n"
      "# own choice. For libnccl-tuner-cinch.so; must be the same on all hosts of a job.\n"
      "# {}\n",
      measured.ncclVersion, describeJob(measured), tuner::ruleHeading());
  for (const tuner::Rule& rule : before)
    if (stays(rule)) text += tuner::formatRule(rule) + "\n";
  for (const tuner::Rule& rule : rules) text += tuner::formatRule(rule) + "\n";
  return text;
}

}  // namespace cinch::tune
