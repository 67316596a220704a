#include "common/log.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "common/param.h"

namespace cinch {
namespace {

constexpr size_t kMaxLine = 2048;
// A process that warns more often than this has said what is wrong.
constexpr uint32_t kMaxWarnings = 1000;

std::atomic<uint32_t> nWarnings{0};

// What NCCL_DEBUG asks for; NCCL takes unknown names as nothing.
LogLevel requestedLevel() {
  struct Name {
    const char* text;
    LogLevel level;
  };
  static constexpr std::array kNames = {
      Name{"VERSION", LogLevel::version}, Name{"WARN", LogLevel::warn},
      Name{"INFO", LogLevel::info},       Name{"ABORT", LogLevel::info},
      Name{"TRACE", LogLevel::trace},
  };
  const char* wanted = environmentVariable("NCCL_DEBUG");
  if (wanted == nullptr) return LogLevel::none;
  for (const Name& name : kNames) {
    if (strcasecmp(wanted, name.text) == 0) return name.level;
  }
  return LogLevel::none;
}

int openSink(LogLevel requested) {
  const char* pattern = environmentVariable("NCCL_DEBUG_FILE");
  // Like NCCL, which leaves the file alone unless its own warnings were asked for.
  if (requested <= LogLevel::version || pattern == nullptr || *pattern == '\0') {
    return STDOUT_FILENO;
  }
  const std::string path = expandPath(pattern);
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  // NCCL truncates its file when it opens it and writes at an offset of its own, so that lines of
  // either would overwrite the other's in a file for both.
  const int fd = open((path + ".cinch").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return fd >= 0 ? fd : STDOUT_FILENO;
}

struct Sink {
  const LogLevel requested = requestedLevel();
  const LogLevel level = std::max(requested, LogLevel::warn);
  const int fd = openSink(requested);
  const std::string host = expandPath("%h");
};

const Sink& sink() {
  static const Sink* const instance = new Sink;  // never destroyed: lines may come at exit
  return *instance;
}

const char* levelName(LogLevel level) {
  switch (level) {
    case LogLevel::info:
      return "INFO";
    case LogLevel::trace:
      return "TRACE";
    case LogLevel::version:
      return "VERSION";
    default:
      return "WARN";
  }
}

// Whether this warning is still to be written; `last` is set for the last one.
bool admitWarning(bool& last) {
  const uint32_t before = nWarnings.fetch_add(1, std::memory_order_relaxed);
  last = before == kMaxWarnings - 1;
  return before < kMaxWarnings;
}

// One write per line, so that lines of several threads and ranks do not mix.
void writeAll(int fd, const char* text, size_t nBytes) {
  while (nBytes > 0) {
    const ssize_t written = write(fd, text, nBytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    nBytes -= static_cast<size_t>(written);
  }
}

void writeLine(LogLevel level, const char* subsystem, const char* format, va_list args) {
  std::array<char, kMaxLine> line;
  const int head = snprintf(line.data(), line.size(), "%s:%d:%ld [-] NCCL %s CINCH/%s ",
                            sink().host.c_str(), static_cast<int>(getpid()),
                            static_cast<long>(syscall(SYS_gettid)), levelName(level), subsystem);
  const size_t start = std::min(static_cast<size_t>(std::max(head, 0)), line.size() - 1);
  vsnprintf(line.data() + start, line.size() - start, format, args);
  const size_t length = strlen(line.data());
  std::replace(line.data() + start, line.data() + length, '\n', ' ');
  line[length] = '\n';  // in place of the terminator
  writeAll(sink().fd, line.data(), length + 1);
}

}  // namespace

bool logEnabled(LogLevel level) {
  return level != LogLevel::none && level <= sink().level;
}

void logLine(LogLevel level, const char* subsystem, const char* format, ...) {
  if (!logEnabled(level)) return;
  bool last = false;
  if (level == LogLevel::warn && !admitWarning(last)) return;
  const int savedErrno = errno;
  va_list args;
  va_start(args, format);
  writeLine(level, subsystem, format, args);
  va_end(args);
  if (last) logLine(LogLevel::version, subsystem, "further warnings are not shown");
  errno = savedErrno;
}

}  // namespace cinch
