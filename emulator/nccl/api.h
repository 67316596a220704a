// How the exported functions are defined: pncclX holds the code, ncclX is a weak second name for
// it, so that another library may put its own ncclX in front and still reach ours.
#pragma once

#include <nccl.h>

#include <new>

#include "common/result.h"
#include "emulator/nccl/debug.h"

#define CINCH_NCCL_API(resultType, name, ...)                                   \
  extern "C" [[gnu::weak, gnu::alias("p" #name)]] resultType name(__VA_ARGS__); \
  extern "C" resultType p##name(__VA_ARGS__)

namespace cinch::emulator {

// Runs the body of an exported function: errors are logged, exceptions (memory, threads) stay
// inside.
template <class Body>
ncclResult_t guarded(Body body) {
  try {
    const Result<void> result = body();
    return result ? ncclSuccess : report(result.error());
  } catch (const std::exception& exception) {
    return report(errorf(Status::systemError, "out of resources: %s", exception.what()));
  }
}

// Fails where `pointer` is null, naming the function and its parameter.
inline Result<void> checkPointer(const void* pointer, const char* function, const char* name) {
  if (pointer != nullptr) return {};
  return errorf(Status::invalidArgument, "%s: %s is NULL", function, name);
}

}  // namespace cinch::emulator
