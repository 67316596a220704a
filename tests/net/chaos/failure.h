// How a process under test says that something is wrong: one line on stderr, and it ends.
#pragma once

namespace cinch::chaos {

// What the line begins with.
void setProcessName(const char* name);

[[noreturn, gnu::format(printf, 1, 2)]] void fail(const char* format, ...);

}  // namespace cinch::chaos

#define CINCH_CHECK(condition, ...)                      \
  do {                                                   \
    if (!(condition)) ::cinch::chaos::fail(__VA_ARGS__); \
  } while (0)
