// NCCL's net plugin tables, versions 8 to 12, behind the emulator's own interface.
#pragma once

#include <functional>
#include <memory>

#include "emulator/nccl/net.h"

namespace cinch::emulator {

// What gives the address of an exported symbol, or null: a library.
using SymbolLookup = std::function<const void*(const char* name)>;

// Puts the newest table that the library exports behind the interface; null where it has none. The
// library outlives the transport.
std::unique_ptr<NetTransport> adaptNetPlugin(const SymbolLookup& lookup);

}  // namespace cinch::emulator
