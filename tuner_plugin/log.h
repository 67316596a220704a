// Log lines of the tuner plugin, which go where NCCL's own lines go and nowhere before NCCL has
// said where that is. INFO is for what happens once per communicator or rule, never once per call.
// Safe from any thread; keeps errno.
#pragma once

#include "common/log.h"

namespace cinch::tuner {

// Takes one finished line: `function` and `line` say who wrote it.
using LogSink = void (*)(LogLevel level, const char* function, int line, const char* text);

// From now on lines go to `sink`; null: nowhere.
void setLogSink(LogSink sink);

// Formats a line, with "CINCH/TUNER " in front; what is longer than 1 KB is cut.
[[gnu::format(printf, 4, 5)]] void writeLog(LogLevel level, const char* function, int line,
                                            const char* format, ...);

}  // namespace cinch::tuner

#define CINCH_TUNER_WARN(...) \
  ::cinch::tuner::writeLog(::cinch::LogLevel::warn, __func__, __LINE__, __VA_ARGS__)
#define CINCH_TUNER_INFO(...) \
  ::cinch::tuner::writeLog(::cinch::LogLevel::info, __func__, __LINE__, __VA_ARGS__)
