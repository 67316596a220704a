#include "interpose/real/captured_nccl.h"

#include <dlfcn.h>

#include "interpose/real/shared_object.h"

namespace cinch {

bool CapturedNccl::take(DlsymFunction find, void* handle, const void* function) {
  const void* base = baseOf(function);
  if (base == nullptr) return false;
  void* known = probe();
  const void* knownBase = known == nullptr ? nullptr : baseOf(known);
  // A copy that was closed again gives way to the next.
  if (knownBase != nullptr) return knownBase == base;
  void* found = find(handle, kNcclProbe);
  if (found == nullptr) dlerror();  // the program's own look-up did succeed
  if (found == nullptr || baseOf(found) != base) return false;
  // Where another thread was faster, its copy is the captured one.
  return probe_.compare_exchange_strong(known, found) || baseOf(known) == base;
}

CapturedNccl& capturedNccl() {
  static constinit CapturedNccl instance;
  return instance;
}

}  // namespace cinch
