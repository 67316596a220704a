// Lines in NCCL's own format, as NCCL_DEBUG (VERSION, WARN, INFO) and NCCL_DEBUG_FILE (%h, %p) ask:
//
//   host:pid:tid [device] NCCL INFO text
//
// What plugins log also passes NCCL_DEBUG_SUBSYS, and their warnings name the place in the source.
// To standard output unless a file is named. Safe from any thread.
#pragma once

#include <string>

#include "common/nccl_types.h"
#include "common/result.h"
#include "net_plugin/abi/net_common.h"

namespace cinch::emulator {

// What every banner says of this library.
inline constexpr const char* kVersionBanner =
    "NCCL version 2.28.9+emulator (Cinch, CPU: no GPU is used)";

// The device that the calling thread's lines carry.
void setDebugDevice(int device);

void logVersion();
[[gnu::format(printf, 1, 2)]] void logInfo(const char* format, ...);

// Writes a WARN line and remembers its text for lastError().
[[gnu::format(printf, 1, 2)]] void logWarn(const char* format, ...);

// The logger that net plugins are given.
[[gnu::format(printf, 5, 6)]] void logPluginLine(ncclDebugLogLevel level, unsigned long subsystems,
                                                 const char* file, int line, const char* format,
                                                 ...);

// Logs an error at the boundary where it becomes a result code.
ncclResult_t report(const Error& error);

// The text of this process's last warning, in memory that lives until the thread's next call.
const char* lastError();

}  // namespace cinch::emulator
