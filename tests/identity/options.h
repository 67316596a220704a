// --NAME VALUE of the programs beside this file.
#pragma once

#include <cstdint>
#include <string>

namespace cinch::identity {

struct Options {
  uint64_t number = 0;  // of streams, or of runs
  uint64_t seed = 0;    // drawn where it is not given
};

// `numberName`: "--streams" or "--runs". Prints the seed. Ends the process where it understands
// nothing.
Options readOptions(int argc, char** argv, const std::string& numberName, uint64_t number);

}  // namespace cinch::identity
