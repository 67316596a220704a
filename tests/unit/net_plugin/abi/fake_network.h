// The network that the tables are tested over: it does as it is told and writes down what it heard.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "net_plugin/abi/net_common.h"
#include "net_plugin/net.h"

namespace cinch::net::fake {

// What the next call gives back, and what the last ones were given. reset() before each test.
struct Network {
  int nDevices = 2;
  std::string failure;  // of devices() itself
  // Run at the begin of every call but devices(): throws, or gives an error that is passed on.
  std::function<Result<void>()> onCall = [] { return Result<void>(); };

  bool opens = true;       // listen, connect and accept give an object
  bool posts = true;       // send, receive and flush give a request
  bool isDone = true;      // test
  size_t maxReceives = 1;  // of a receiver
  std::array<size_t, kMaxGroup> nBytesMoved{};
  void* token = nullptr;

  Handle handle{};       // as connect or listen found it
  Handle handleAfter{};  // what connect and listen write
  int trafficClass = 0;
  int device = 0;
  int tag = 0;
  std::vector<Buffer> buffers;  // of receive or flush
  const void* data = nullptr;
  size_t nBytes = 0;
  void* memory = nullptr;
  MemoryKind kind = MemoryKind::host;
  Dmabuf dmabuf;
  int nAlive = 0;  // listeners and connections
  std::vector<std::string> calls;
};
extern Network network;

struct LoggedLine {
  ncclDebugLogLevel level;
  unsigned long flags;
  std::string text;
};
extern std::vector<LoggedLine> logged;

// What init is given.
void logger(ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
            const char* format, ...);

void reset();

}  // namespace cinch::net::fake
