#include "interpose/real/nccl_search.h"

#include <dlfcn.h>

#include <mutex>
#include <string>

#include "common/log.h"
#include "common/param.h"
#include "interpose/real/captured_nccl.h"
#include "interpose/real/nccl_files.h"
#include "interpose/real/shared_object.h"

namespace cinch {
namespace {

// Cinch under the name of NCCL exports NCCL's functions, and must not be found in its place.
bool isDropIn(void* handle, const void* symbol) {
  const void* marker = dlsym(handle, kDropInMarker);
  return marker != nullptr && baseOf(marker) == baseOf(symbol);
}

void* probe(void* handle) {
  void* symbol = handle == nullptr ? nullptr : dlsym(handle, kNcclProbe);
  return symbol == nullptr || isDropIn(handle, symbol) ? nullptr : symbol;
}

void* open(const std::string& path) {
  return probe(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
}

// Each caller of NCCL searches anew.
void warnOnceOf(const std::string& path) {
  static std::once_flag once;
  std::call_once(once, [&path] {
    CINCH_WARN("INIT", "CINCH_NCCL_LIB=%s cannot be used (%s); looking elsewhere", path.c_str(),
               "no such library, or it is Cinch's own, or it does not export pncclAllReduce");
  });
}

void* fromSetting() {
  const std::string& path = processParams().params.ncclLib;
  if (path.empty()) return nullptr;
  void* found = open(path);
  if (found == nullptr) warnOnceOf(path);
  return found;
}

// The caller's own object searches its dependencies, also where those are loaded RTLD_LOCAL.
void* fromCaller(const void* caller) {
  return probe(handleOf(caller));
}

void* fromCapture() {
  void* symbol = capturedNccl().probe();
  return symbol == nullptr ? nullptr : probe(handleOf(symbol));
}

void* fromGlobalScope() {
  return probe(RTLD_NEXT);
}

void* fromMappedObjects() {
  for (const std::string& path : mappedObjects())
    if (path.find("libnccl.so") != std::string::npos)
      if (void* found = probe(handleOf(path))) return found;
  return nullptr;
}

void* fromFiles(const void* caller) {
  for (const std::string& path : ncclFiles(caller))
    if (void* found = open(path)) return found;
  return nullptr;
}

}  // namespace

void* searchNccl(const void* caller) {
  void* found = fromSetting();
  if (found == nullptr) found = fromCaller(caller);
  if (found == nullptr) found = fromCapture();
  if (found == nullptr) found = fromGlobalScope();
  if (found == nullptr) found = fromMappedObjects();
  if (found == nullptr) found = fromFiles(caller);
  return found;
}

}  // namespace cinch
