#include "tools/cinch/bench/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace cinch::bench {
namespace {

constexpr const char* kNoFigure = "N/A";
// As in nccl-tests, up to the second "#wrong".
constexpr const char* kColumns =
    "#\n"
    "#                                                              out-of-place                   "
    "    in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time "
    "  algbw   busbw #wrong   ratio      nmse     bound  path\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us) "
    " (GB/s)  (GB/s)\n";

std::string timeText(double microseconds) {
  const int digits = microseconds >= 1e4 ? 0 : microseconds >= 100 ? 1 : 2;
  return fmt::format("{:.{}f}", microseconds, digits);
}

std::string phaseText(const Phase& phase) {
  const std::string wrong = phase.checked ? fmt::format("{}", phase.checked->wrong) : kNoFigure;
  return fmt::format("  {:>7}  {:>6.2f}  {:>6.2f}  {:>5}", timeText(phase.microseconds),
                     phase.bandwidth.algorithm, phase.bandwidth.bus, wrong);
}

// "compressed:q4", "passed:small", "plain".
std::string pathText(const Phase& phase) {
  const std::string& detail = phase.path == Path::passed ? phase.reason : phase.codec;
  return detail.empty() ? nameOf(phase.path) : fmt::format("{}:{}", nameOf(phase.path), detail);
}

// The worse of the two phases, and what it may be.
std::pair<std::string, std::string> errorTexts(const Row& row) {
  if (!row.outOfPlace.checked || !row.inPlace.checked) return {kNoFigure, kNoFigure};
  const auto& [first, second] = std::pair(*row.outOfPlace.checked, *row.inPlace.checked);
  const Checked& worse = second.nmse > first.nmse ? second : first;
  return {fmt::format("{:.2e}", worse.nmse), fmt::format("{:.2e}", worse.tolerance.nmse)};
}

std::string placeLine(int rank, const RankPlace& place, bool emulator) {
  return fmt::format("#  Rank {:>2} Group  0 Pid {:>6} on {:>10} device {:>2} [{}]{}\n", rank,
                     place.pid, place.host, place.device, place.bus,
                     emulator ? " Cinch emulator (CPU)" : "");
}

std::string stepText(const RunFacts& facts) {
  return facts.stepFactor > 1 ? fmt::format("{:g}(factor)", facts.stepFactor)
                              : fmt::format("{}(bytes)", facts.stepBytes);
}

}  // namespace

std::string tableHead(const RunFacts& facts, const std::vector<RankPlace>& places) {
  std::string text =
      fmt::format("# cinch bench {} nccl-library={}{} {}\n", CINCH_VERSION, facts.ncclVersion,
                  facts.emulator ? " (emulator)" : "", facts.ncclPath);
  text += fmt::format("# Collective test starting: {}\n", facts.collective);
  text += facts.cinch ? fmt::format("# Cinch: {}\n", facts.settings) : "# Cinch: not preloaded\n";
  text += fmt::format(
      "# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} agg iters: "
      "1 "
      "validation: {} graph: {}\n#\n# Using devices\n",
      facts.minBytes, facts.maxBytes, stepText(facts), facts.warmups, facts.iterations,
      facts.checks, facts.graphLaunches);
  for (size_t rank = 0; rank < places.size(); ++rank)
    text += placeLine(static_cast<int>(rank), places[rank], facts.emulator);
  return text + kColumns;
}

std::string tableRow(const Row& row) {
  const auto [nmse, bound] = errorTexts(row);
  const std::string first = pathText(row.outOfPlace), second = pathText(row.inPlace);
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}  {:>6.2f}  {:>8}  {:>8}  {}\n",
                     row.shape.bytes(), row.shape.count, row.type, row.operation, -1,
                     phaseText(row.outOfPlace), phaseText(row.inPlace),
                     std::min(row.outOfPlace.ratio, row.inPlace.ratio), nmse, bound,
                     first == second ? first : first + "," + second);
}

std::string tableFoot(const Totals& totals, const std::string& collective) {
  return fmt::format(
      "# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g} \n#\n"
      "# Collective test concluded: {}\n#\n",
      totals.wrong, totals.wrong == 0 ? "OK" : "FAILED", totals.busBandwidth, collective);
}

}  // namespace cinch::bench
