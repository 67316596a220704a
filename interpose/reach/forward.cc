// What the library that stands in for libnccl.so.2 does with the functions that Cinch has no entry
// point for, and with all pnccl names: it hands them to the real NCCL of the caller.
//
// The real function is looked up at each call, a fraction of a microsecond: none of them is in a
// training step, and callers in one process may have different NCCLs.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <string_view>

#include "common/log.h"
#include "interpose/real/real_nccl.h"

// By this name the search for the real NCCL knows Cinch (kDropInMarker).
extern "C" __attribute__((visibility("default"))) const char cinchDropIn[] =
    "Cinch in the place of libnccl.so.2";

namespace cinch {
namespace {

constexpr const char* kNames[] = {
#define CINCH_NCCL_NAME(name) "pnccl" #name,
#include "interpose/reach/nccl_names.def"
#undef CINCH_NCCL_NAME
};

// Stand in for a function of an NCCL that lacks it, or that was not found at all.
ncclResult_t refuseUsage() {
  return ncclInvalidUsage;
}
ncclResult_t refuseSystem() {
  return ncclSystemError;
}
const char* explainMissing() {
  return "Cinch stands in for libnccl.so.2 and cannot reach the real function: see its log";
}

bool returnsText(std::string_view name) {
  return name == "pncclGetErrorString" || name == "pncclGetLastError";
}

// Each missing function is named once.
void warnOfMissing(unsigned index, const RealNccl& real) {
  static constinit std::array<std::atomic<bool>, std::size(kNames)> said{};
  if (!said[index].exchange(true))
    CINCH_WARN("INIT", "NCCL %d (%s) has no %s: the call returns ncclInvalidUsage", real.version,
               real.path.c_str(), kNames[index] + 1);
}

// The strong name cannot lead back to Cinch; a function that has only the weak one is found in the
// real library first.
void* functionOf(const RealNccl& real, const char* name) {
  void* function = dlsym(real.handle, name);
  return function != nullptr ? function : dlsym(real.handle, name + 1);
}

}  // namespace
}  // namespace cinch

using namespace cinch;

extern "C" __attribute__((visibility("hidden"))) void* cinchForwardTarget(unsigned index,
                                                                          const void* caller) {
  const RealNccl* real = realNcclOf(caller);
  void* function = real == nullptr ? nullptr : functionOf(*real, kNames[index]);
  if (function != nullptr) return function;
  if (real != nullptr) warnOfMissing(index, *real);
  if (returnsText(kNames[index])) return reinterpret_cast<void*>(explainMissing);
  return reinterpret_cast<void*>(real == nullptr ? refuseSystem : refuseUsage);
}
