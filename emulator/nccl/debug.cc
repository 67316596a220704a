#include "emulator/nccl/debug.h"

#include <strings.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>

#include "common/param.h"

namespace cinch::emulator {
namespace {

enum class Level : int { none, version, warn, info, abort, trace };

constexpr size_t kLineBytes = 1024;

// In the order of their bits.
constexpr const char* kSubsystems[] = {"INIT",      "COLL", "P2P",     "SHM",  "NET",   "GRAPH",
                                       "TUNING",    "ENV",  "ALLOC",   "CALL", "PROXY", "NVLS",
                                       "BOOTSTRAP", "REG",  "PROFILE", "RAS"};
constexpr const char* kUsualSubsystems = "INIT,ENV,BOOTSTRAP";

unsigned long subsystemBits(const char* name, size_t length) {
  const auto is = [&](const char* other) {
    return strlen(other) == length && strncasecmp(name, other, length) == 0;
  };
  if (is("ALL")) return ~0ul;
  for (size_t i = 0; i < std::size(kSubsystems); ++i) {
    if (is(kSubsystems[i])) return 1ul << i;
  }
  return 0;
}

// A list such as INIT,NET, or ^COLL for all but these.
unsigned long subsystemsFromEnvironment() {
  const char* text = environmentVariable("NCCL_DEBUG_SUBSYS");
  if (text == nullptr) text = kUsualSubsystems;
  const bool excludes = *text == '^';
  if (excludes) ++text;
  unsigned long bits = 0;
  while (*text != '\0') {
    const size_t length = strcspn(text, ",");
    bits |= subsystemBits(text, length);
    text += length + (text[length] == ',' ? 1 : 0);
  }
  return excludes ? ~bits : bits;
}

Level levelFromEnvironment() {
  const char* text = environmentVariable("NCCL_DEBUG");
  if (text == nullptr) return Level::none;
  const std::pair<const char*, Level> names[] = {{"VERSION", Level::version},
                                                 {"WARN", Level::warn},
                                                 {"INFO", Level::info},
                                                 {"ABORT", Level::abort},
                                                 {"TRACE", Level::trace}};
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
  unsigned long subsystems = subsystemsFromEnvironment();  // of plugins
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

// `place`: where in the source, with a space behind it; may be empty.
void writeLine(Log& log, const char* place, const char* kind, const char* text) {
  char line[kLineBytes + 256];
  const int length = snprintf(line, sizeof line, "%s:%d:%d [%d] %sNCCL %s %s\n", log.host.c_str(),
                              getpid(), gettid(), threadDevice, place, kind, text);
  if (length < 0) return;
  fwrite(line, 1, std::min<size_t>(length, sizeof line - 1), log.output);
  fflush(log.output);
}

void rememberError(Log& log, const char* text) {
  std::lock_guard lock(log.mutex);
  log.lastError = text;
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
  writeLine(log, "", "INFO", text);
}

void logWarn(const char* format, ...) {
  Log& log = processLog();
  char text[kLineBytes];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  rememberError(log, text);
  if (log.level >= Level::warn) writeLine(log, "", "WARN", text);
}

void logPluginLine(ncclDebugLogLevel level, unsigned long subsystems, const char* file, int line,
                   const char* format, ...) {
  Log& log = processLog();
  char text[kLineBytes];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (level == NCCL_LOG_WARN) rememberError(log, text);
  if (log.level < static_cast<Level>(level) || (log.subsystems & subsystems) == 0) return;
  if (level == NCCL_LOG_WARN) {
    char place[128];
    snprintf(place, sizeof place, "%s:%d ", file, line);
    writeLine(log, place, "WARN", text);
  } else {
    writeLine(log, "", level == NCCL_LOG_TRACE ? "TRACE" : "INFO", text);
  }
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
