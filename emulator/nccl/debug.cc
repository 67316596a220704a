#include "emulator/nccl/debug.h"

#include <strings.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <mutex>

#include "common/param.h"

namespace cinch::emulator {
namespace {

enum class Level : int { none, version, warn, info };

constexpr size_t kLineBytes = 1024;

Level levelFromEnvironment() {
  const char* text = environmentVariable("NCCL_DEBUG");
  if (text == nullptr) return Level::none;
  const std::pair<const char*, Level> names[] = {{"VERSION", Level::version},
                                                 {"WARN", Level::warn},
                                                 {"INFO", Level::info},
                                                 {"ABORT", Level::info},
                                                 {"TRACE", Level::info}};
  for (const auto& [name, level] : names) {
    if (strcasecmp(text, name) == 0) return level;
  }
  return Level::none;
}

FILE* openOutput(Level level) {
  if (level <= Level::version) return stdout;  // as NCCL: the file is for its warnings
  const char* pattern = environmentVariable("NCCL_DEBUG_FILE");
  FILE* file =
      pattern == nullptr || *pattern == '\0' ? nullptr : fopen(expandPath(pattern).c_str(), "w");
  return file == nullptr ? stdout : file;
}

// The process's log: settings are read at the first line.
struct Log {
  Level level = levelFromEnvironment();
  FILE* output = openOutput(level);
  std::string host = expandPath("%h");
  std::mutex mutex;
  std::string lastError;
};

// Never destroyed: threads may still write while the process exits.
Log& processLog() {
  static Log* log = new Log;
  return *log;
}

thread_local int threadDevice = 0;

void writeLine(Log& log, const char* kind, const char* text) {
  char line[kLineBytes + 128];
  const int length = snprintf(line, sizeof line, "%s:%d:%d [%d] NCCL %s%s\n", log.host.c_str(),
                              getpid(), gettid(), threadDevice, kind, text);
  if (length < 0) return;
  fwrite(line, 1, std::min<size_t>(length, sizeof line - 1), log.output);
  fflush(log.output);
}

}  // namespace

void setDebugDevice(int device) {
  threadDevice = device;
}

void logVersion() {
  Log& log = processLog();
  if (log.level == Level::none) return;
  fprintf(log.output, "%s\n", kVersionBanner);
  fflush(log.output);
}

void logInfo(const char* format, ...) {
  Log& log = processLog();
  if (log.level < Level::info) return;
  char text[kLineBytes];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  writeLine(log, "INFO ", text);
}

void logWarn(const char* format, ...) {
  Log& log = processLog();
  char text[kLineBytes];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  {
    std::lock_guard lock(log.mutex);
    log.lastError = text;
  }
  if (log.level >= Level::warn) writeLine(log, "WARN ", text);
}

ncclResult_t report(const Error& error) {
  logWarn("%s", error.message.c_str());
  return static_cast<ncclResult_t>(error.status);
}

const char* lastError() {
  thread_local std::string text;
  Log& log = processLog();
  std::lock_guard lock(log.mutex);
  text = log.lastError;
  return text.c_str();
}

}  // namespace cinch::emulator
