#include "tests/net/trivial/protocol.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>

namespace cinch::trivial {
namespace {

std::atomic<ncclDebugLogger_t> logger{nullptr};

// As NCCL flags its own lines: whoever asks for INIT or NET sees what is told, and warnings are
// for all.
constexpr unsigned long kTold = NCCL_LOG_INIT | NCCL_LOG_NET;
constexpr unsigned long kWarned = ~0ul;

void logLine(ncclDebugLogLevel level, const char* kind, const char* format, va_list args) {
  char text[512];
  vsnprintf(text, sizeof text, format, args);
  const ncclDebugLogger_t log = logger.load();
  if (log == nullptr) return;
  log(level, level == NCCL_LOG_WARN ? kWarned : kTold, __FILE__, __LINE__, "NET/Trivial : %s%s",
      kind, text);
}

}  // namespace

void setLogger(ncclDebugLogger_t function) {
  logger.store(function);
}

void logInfo(const char* format, ...) {
  va_list args;
  va_start(args, format);
  logLine(NCCL_LOG_INFO, "", format, args);
  va_end(args);
}

void logWarn(const char* format, ...) {
  va_list args;
  va_start(args, format);
  logLine(NCCL_LOG_WARN, "", format, args);
  va_end(args);
}

ncclResult_t breach(const char* format, ...) {
  va_list args;
  va_start(args, format);
  logLine(NCCL_LOG_WARN, "breach of NCCL's protocol: ", format, args);
  va_end(args);
  return ncclInternalError;
}

ncclResult_t ThreadRule::checkTransfer(const char* call) {
  pid_t first = 0;
  if (transferThread_.compare_exchange_strong(first, gettid()) || first == gettid()) {
    return ncclSuccess;
  }
  return breach("%s by thread %d, on a connection of thread %d", call, gettid(), first);
}

ncclResult_t ThreadRule::checkService(const char* call) const {
  if (transferThread_.load() != gettid()) return ncclSuccess;
  return breach("%s by the thread that transfers", call);
}

ncclResult_t Registrations::add(char* data, size_t nBytes, int type, void** token) {
  if (type != NCCL_PTR_HOST) return breach("regMr of memory of type %d", type);
  if (data == nullptr || nBytes == 0) return breach("regMr of nothing");
  std::lock_guard lock(mutex_);
  *token = reinterpret_cast<void*>(++nAdded_);
  pieces_[*token] = {data, nBytes};
  return ncclSuccess;
}

ncclResult_t Registrations::remove(void* token) {
  std::lock_guard lock(mutex_);
  return pieces_.erase(token) == 1 ? ncclSuccess : breach("deregMr of what was not registered");
}

ncclResult_t Registrations::check(const void* data, size_t nBytes, void* token) {
  std::lock_guard lock(mutex_);
  const auto piece = pieces_.find(token);
  if (piece == pieces_.end()) return breach("a buffer of an unknown registration");
  const auto* begin = static_cast<const char*>(data);
  const char* end = piece->second.data + piece->second.nBytes;
  const bool inside =
      begin >= piece->second.data && begin <= end && nBytes <= static_cast<size_t>(end - begin);
  return inside ? ncclSuccess : breach("a buffer outside of what was registered for it");
}

size_t Registrations::count() {
  std::lock_guard lock(mutex_);
  return pieces_.size();
}

}  // namespace cinch::trivial
