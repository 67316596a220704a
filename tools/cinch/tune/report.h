// What a sweep has found, for people: a table and a plot. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/cinch/tune/choice.h"

namespace cinch::tune {

// "8 ranks on 2 nodes"
std::string describeJob(const Measurement& measured);

std::string verdictTable(std::span<const Verdict> verdicts);

// What gnuplot is told: for each collective the times of NCCL's own choice and of what was chosen.
std::string plotScript(std::span<const Verdict> verdicts, const std::string& title,
                       const std::string& file);

// The file of rules: those of `before` that are about other collectives or shapes, then the new.
std::string ruleFile(std::span<const tuner::Rule> before, std::span<const tuner::Rule> rules,
                     std::span<const Verdict> verdicts, const Measurement& measured);

}  // namespace cinch::tune
