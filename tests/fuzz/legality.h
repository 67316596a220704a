// Whether a program is one that plain NCCL carries out to the end. An oracle beside the generator:
// it knows nothing of how programs are made, and runs them in the strictest model of NCCL.
//
// In that model a thread's launches go one after another, whatever their streams: a group is one
// batch per communicator, in the order of first use; a batch ends when all its calls have met those
// of the other ranks. Creating a communicator blocks the thread until all members do.
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/program.h"

namespace cinch::fuzz {

// What is wrong with it; empty: nothing.
std::vector<std::string> violationsOf(const Program& program);

}  // namespace cinch::fuzz
