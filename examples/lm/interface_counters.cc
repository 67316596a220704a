#include "examples/lm/interface_counters.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace lm {

InterfaceCounters readInterfaceCounters(const std::string& interface, const std::string& table) {
  std::ifstream file(table);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    const size_t start = line.find_first_not_of(' ');
    if (colon == std::string::npos || line.substr(start, colon - start) != interface) continue;
    // Eight columns on what was received, bytes first, then eight on what was sent.
    std::istringstream columns(line.substr(colon + 1));
    InterfaceCounters counters;
    uint64_t skipped;
    columns >> counters.received;
    for (int i = 0; i < 7; ++i) columns >> skipped;
    if (columns >> counters.sent) return counters;
  }
  throw std::runtime_error("no network interface " + interface + " in " + table);
}

}  // namespace lm
