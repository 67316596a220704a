// Draws a run: bandwidth and error against size, each with its bound, through gnuplot.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "tools/cinch/bench/results.h"

namespace cinch::bench {

// What gnuplot is told. `linkGigabits` above 0 draws the bandwidth that such links allow.
std::string plotScript(const RunFacts& facts, const std::vector<Row>& rows, double linkGigabits,
                       const std::string& file);

// The parts of a script that every plot has: where it goes, by the file's suffix, and text as
// gnuplot takes it.
std::string plotOutput(const std::string& file);
std::string quotedForPlot(const std::string& text);

Result<void> drawPlot(const std::string& script);

}  // namespace cinch::bench
