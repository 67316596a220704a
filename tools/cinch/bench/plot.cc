#include "tools/cinch/bench/plot.h"

#include <fmt/core.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>

namespace cinch::bench {
namespace {

std::string terminalOf(const std::string& file) {
  const std::string suffix = std::filesystem::path(file).extension().string();
  if (suffix == ".svg") return "svg size 900,800 background 'white'";
  return suffix == ".pdf" ? "pdfcairo size 9in,8in" : "pngcairo size 900,800";
}

double errorOf(const Phase& phase) {
  return phase.checked ? phase.checked->nmse : 0;
}

// Columns: size, bus bandwidth out of place and in place, bound of the link, error, its bound.
std::string dataOf(const std::vector<Row>& rows, double linkGigabits) {
  constexpr double kBitsPerByte = 8;
  std::string text = "$data << END\n";
  for (const Row& row : rows) {
    if (row.shape.bytes() == 0) continue;  // no place on a logarithmic axis
    const double limit = linkGigabits / kBitsPerByte * row.outOfPlace.ratio;
    const auto& checked = row.outOfPlace.checked;
    text += fmt::format("{} {} {} {} {} {}\n", row.shape.bytes(), row.outOfPlace.bandwidth.bus,
                        row.inPlace.bandwidth.bus, limit, errorOf(row.outOfPlace),
                        checked ? checked->tolerance.nmse : 0);
  }
  return text + "END\n";
}

}  // namespace

// In single quotes, where gnuplot takes all but those as they are.
std::string quotedForPlot(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("''") : std::string(1, c);
  return result + "'";
}

std::string plotOutput(const std::string& file) {
  return fmt::format("set terminal {}\nset output {}\n", terminalOf(file), quotedForPlot(file));
}

std::string plotScript(const RunFacts& facts, const std::vector<Row>& rows, double linkGigabits,
                       const std::string& file) {
  std::string text = plotOutput(file);
  text += dataOf(rows, linkGigabits);
  text += fmt::format(
      "set multiplot layout 2,1 title {} noenhanced\n"
      "set logscale x 2\nset xlabel 'size (bytes)'\nset format x '%.0b%B'\nset grid\n"
      "set key left top\nset ylabel 'effective bus bandwidth (GB/s)'\nset yrange [0:*]\n"
      "plot $data using 1:2 with linespoints title 'out of place', "
      "$data using 1:3 with linespoints title 'in place'",
      quotedForPlot(fmt::format("{}, {} ranks, NCCL {}{}{}", facts.collective, facts.ranks,
                                facts.ncclVersion, facts.emulator ? " (emulator)" : "",
                                facts.cinch ? ", Cinch" : "")));
  if (linkGigabits > 0)
    text +=
        fmt::format(", $data using 1:4 with lines dashtype 2 title 'bound of a {:g} Gbit/s link'",
                    linkGigabits);
  // Without errors the second plot is empty, and its axis must be given.
  text +=
      "\nset ylabel 'error (NMSE)'\nset logscale y\nset yrange [1e-9:1]\nset format y '10^{%T}'\n"
      "plot $data using 1:($5 > 0 ? $5 : 1/0) with linespoints title 'found', "
      "$data using 1:($6 > 0 ? $6 : 1/0) with lines dashtype 2 title 'bound'\n"
      "unset multiplot\n";
  return text;
}

Result<void> drawPlot(const std::string& script) {
  FILE* gnuplot = popen("gnuplot", "w");
  if (gnuplot == nullptr) return errorf(Status::systemError, "cannot start gnuplot");
  std::fwrite(script.data(), 1, script.size(), gnuplot);
  const int status = pclose(gnuplot);
  constexpr int kNotFound = 127;  // of the shell
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotFound)
    return errorf(Status::systemError, "gnuplot is missing: install it (gnuplot-nox)");
  if (status != 0) return errorf(Status::systemError, "gnuplot failed; its message is above");
  return {};
}

}  // namespace cinch::bench
