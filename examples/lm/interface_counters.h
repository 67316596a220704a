// Bytes that a network interface has sent and received, as the kernel counts them.
#pragma once

#include <cstdint>
#include <string>

namespace lm {

struct InterfaceCounters {
  uint64_t received = 0;
  uint64_t sent = 0;
};

// Of `interface` in this process's network namespace. Throws std::runtime_error where there is none
// of that name. `table` is the kernel's list.
InterfaceCounters readInterfaceCounters(const std::string& interface,
                                        const std::string& table = "/proc/self/net/dev");

}  // namespace lm
