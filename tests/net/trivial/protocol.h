// What callers must keep, seen from the plugin's side. A breach is logged and answered with
// ncclInternalError, so that no test of a caller can pass with one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <mutex>

#include "net_plugin/abi/net_common.h"

namespace cinch::trivial {

// Where NCCL wants to have log lines; null before init.
void setLogger(ncclDebugLogger_t logger);
[[gnu::format(printf, 1, 2)]] void logInfo(const char* format, ...);
[[gnu::format(printf, 1, 2)]] void logWarn(const char* format, ...);
// Logs and gives ncclInternalError.
[[gnu::format(printf, 1, 2)]] ncclResult_t breach(const char* format, ...);

// One thread alone sends, receives and tests on a connection, and it does nothing else there:
// connecting, registration and closing are another thread's.
class ThreadRule {
 public:
  ncclResult_t checkTransfer(const char* call);
  ncclResult_t checkService(const char* call) const;

 private:
  std::atomic<pid_t> transferThread_{0};  // 0: none yet
};

// Memory that was registered on a connection; a token stands for each piece.
class Registrations {
 public:
  ncclResult_t add(char* data, size_t nBytes, int type, void** token);
  ncclResult_t remove(void* token);
  // Fails where the bytes are not part of the piece.
  ncclResult_t check(const void* data, size_t nBytes, void* token);
  size_t count();

 private:
  struct Piece {
    char* data;
    size_t nBytes;
  };
  std::mutex mutex_;  // the service thread may register while another one transfers
  std::map<void*, Piece> pieces_;
  size_t nAdded_ = 0;
};

}  // namespace cinch::trivial
