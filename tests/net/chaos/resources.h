// What a process holds: how leaks are seen.
#pragma once

#include <cstddef>
#include <string>

namespace cinch::chaos {

struct Resources {
  int descriptors = 0;
  int threads = 0;
  int mappings = 0;      // of its address space
  size_t heapBytes = 0;  // handed out by malloc; 0 under sanitizers, which bring their own
  size_t residentBytes = 0;

  std::string text() const;
};

// Of this process.
Resources measureResources();
int openDescriptors();

}  // namespace cinch::chaos
