// Logs what the arguments ask for: each|threads|warnings|long.
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "common/log.h"

namespace {

void logEachLevel() {
  CINCH_WARN("INIT", "a warning of %d", 1);
  CINCH_INFO("POLICY", "an info");
  cinch::logLine(cinch::LogLevel::trace, "EXEC", "a trace");
}

void logFromThreads() {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([thread] {
      for (int line = 0; line < 500; ++line) CINCH_INFO("TEST", "thread %d line %d.", thread, line);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int, char** argv) {
  const std::string what = argv[1];
  if (what == "each") logEachLevel();
  if (what == "threads") logFromThreads();
  if (what == "warnings") {
    for (int i = 0; i < 1500; ++i) CINCH_WARN("TEST", "number %d.", i);
  }
  if (what == "long") CINCH_WARN("TEST", "first\nsecond %s", std::string(10000, 'x').c_str());
  return 0;
}
