// Finds the NCCL that a program uses, and is the only way to call it.
//
// A process may hold several (a framework's own copy beside a wheel's), and a Python extension's is
// not in the global scope, so it is looked up for the object that calls us (nccl_search.h).
#pragma once

#include <string>

#include "common/nccl_types.h"

namespace cinch {

struct RealNccl {
  // Null where this NCCL lacks the function.
#define CINCH_NCCL(name, parameters) ncclResult_t(*name) parameters = nullptr;
#include "interpose/real/nccl_functions.def"
#undef CINCH_NCCL

  void* handle = nullptr;  // of the shared object that holds it, for dlsym
  std::string path;        // of that object
  int version = 0;         // NCCL_VERSION_CODE of that object
  bool emulator = false;   // it carries the emulator's marker
};

// The NCCL of the code at `caller` (a return address); null, with one warning, where none can be
// found. The object lives as long as the process. Thread-safe; a repeated caller costs a few
// nanoseconds.
const RealNccl* realNcclOf(const void* caller);

}  // namespace cinch
