// Log lines of the net plugin, which go where NCCL's own lines go and nowhere before NCCL has said
// where that is. The level of NCCL_DEBUG is NCCL's to know: every line is handed on, so INFO is for
// what happens once per object, never once per message. Safe from any thread; keeps errno.
#pragma once

#include <string>

#include "common/log.h"

namespace cinch::net {

// Takes one finished line: `function` and `line` say who wrote it.
using LogSink = void (*)(LogLevel level, const char* function, int line, const char* text);

// From now on lines go to `sink`; null: nowhere.
void setLogSink(LogSink sink);

// Formats a line, with "CINCH/NET " in front; what is longer than 1 KB is cut.
[[gnu::format(printf, 4, 5)]] void writeLog(LogLevel level, const char* function, int line,
                                            const char* format, ...);

// Lets through the first lines of one sort, then says once that the report counts the rest: for
// what a peer, a stranger or a bad network can provoke for ever. One thread at a time uses it.
class LineLimit {
 public:
  // `sort` in words: "lost flows to 10.0.0.7:4000".
  LineLimit(LogLevel level, std::string sort) : level_(level), sort_(std::move(sort)) {}
  // True where a line may be written now.
  bool admits();

 private:
  static constexpr int kLines = 20;
  const LogLevel level_;
  const std::string sort_;
  int asked_ = 0;
};

}  // namespace cinch::net

// A warning is for the user to act on. __func__ and not __FILE__: that would be a path of the
// machine that compiled it.
#define CINCH_NET_WARN(...) \
  ::cinch::net::writeLog(::cinch::LogLevel::warn, __func__, __LINE__, __VA_ARGS__)
#define CINCH_NET_INFO(...) \
  ::cinch::net::writeLog(::cinch::LogLevel::info, __func__, __LINE__, __VA_ARGS__)
