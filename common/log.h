// Log lines in NCCL's own format, to where NCCL's go:
//
//   host:pid:tid [-] NCCL INFO CINCH/POLICY allreduce bf16 64 MB and up: compress
//
// Honours NCCL_DEBUG, but never writes less than warnings: a warning is for the user to act on.
// NCCL_DEBUG_FILE (%h, %p) names NCCL's file; Cinch's lines go to that path + ".cinch", because
// NCCL truncates its own. NCCL_DEBUG_SUBSYS is not consulted: Cinch's INFO volume grows with
// objects, never with calls. Each line is one write(2), longer ones are cut at 2 KB. After 1000
// warnings the process says so and writes no more of them. Safe from any thread; never throws;
// keeps errno.
#pragma once

namespace cinch {

enum class LogLevel : int { none = 0, version = 1, warn = 2, info = 3, trace = 5 };

// True where a line of this level would be written: guard for arguments that cost something.
bool logEnabled(LogLevel level);

// Writes one line. `subsystem` is upper case: INIT, AGREE, POLICY, PLAN, EXEC, STATS.
[[gnu::format(printf, 3, 4)]] void logLine(LogLevel level, const char* subsystem,
                                           const char* format, ...);

}  // namespace cinch

#define CINCH_WARN(subsystem, ...) ::cinch::logLine(::cinch::LogLevel::warn, subsystem, __VA_ARGS__)
#define CINCH_INFO(subsystem, ...)                                       \
  do {                                                                   \
    if (::cinch::logEnabled(::cinch::LogLevel::info))                    \
      ::cinch::logLine(::cinch::LogLevel::info, subsystem, __VA_ARGS__); \
  } while (0)
