// What is tried in a process of its own, so that a crash or a wait there is only a finding.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace cinch::doctor {

struct ChildOutcome {
  bool hasEnded = false;  // in time; else it was killed, with all that it had started
  int status = -1;        // its exit status, 128 and the signal where one has ended it
  std::string output;     // stdout and stderr, the first 64 KiB
};

// Runs `body`, whose result is the exit status, with its output caught.
ChildOutcome runApart(const std::function<int()>& body, std::chrono::seconds limit);

// Runs a program with variables in place of those of this process.
ChildOutcome runProgram(const std::vector<std::string>& command,
                        const std::vector<std::string>& environment, std::chrono::seconds limit);

}  // namespace cinch::doctor
