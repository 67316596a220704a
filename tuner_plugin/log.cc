#include "tuner_plugin/log.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace cinch::tuner {
namespace {

constexpr size_t kMaxLine = 1024;

std::atomic<LogSink> logSink{nullptr};

}  // namespace

void setLogSink(LogSink sink) {
  logSink.store(sink, std::memory_order_release);
}

void writeLog(LogLevel level, const char* function, int line, const char* format, ...) {
  const LogSink sink = logSink.load(std::memory_order_acquire);
  if (sink == nullptr) return;
  const int savedErrno = errno;
  char text[kMaxLine];
  const int nPrefix = snprintf(text, sizeof text, "CINCH/TUNER ");
  va_list args;
  va_start(args, format);
  vsnprintf(text + nPrefix, sizeof text - nPrefix, format, args);
  va_end(args);
  sink(level, function, line, text);
  errno = savedErrno;
}

}  // namespace cinch::tuner
