#include "tests/net/chaos/resources.h"

#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>

namespace cinch::chaos {
namespace {

int entriesOf(const char* folder) {
  DIR* open = opendir(folder);
  int n = 0;
  while (readdir(open) != nullptr) ++n;
  closedir(open);
  return n - 2;  // . and ..
}

int linesOf(const char* path) {
  std::ifstream file(path);
  int n = 0;
  for (std::string line; std::getline(file, line);) ++n;
  return n;
}

size_t residentBytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

std::string Resources::text() const {
  return std::to_string(descriptors) + " descriptors, " + std::to_string(threads) + " threads, " +
         std::to_string(mappings) + " mappings, " + std::to_string(heapBytes >> 10) +
         " KiB of heap, " + std::to_string(residentBytes >> 10) + " KiB resident";
}

int openDescriptors() {
  return entriesOf("/proc/self/fd") - 1;  // the one that looks
}

Resources measureResources() {
  malloc_trim(0);
  const struct mallinfo2 heap = mallinfo2();
  return {.descriptors = openDescriptors(),
          .threads = entriesOf("/proc/self/task"),
          .mappings = linesOf("/proc/self/maps"),
          .heapBytes = heap.uordblks + heap.hblkhd,
          .residentBytes = residentBytes()};
}

}  // namespace cinch::chaos
