#include "interpose/real/real_nccl.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "common/log.h"
#include "common/param.h"
#include "kernels/device_table.h"

namespace cinch {
namespace {

constexpr const char* kProbe = "pncclAllReduce";

struct Found {
  void* handle = nullptr;
  void* probe = nullptr;
};

Found probe(void* handle) {
  void* symbol = handle == nullptr ? nullptr : dlsym(handle, kProbe);
  return symbol == nullptr ? Found{} : Found{handle, symbol};
}

Found fromSetting() {
  const std::string& path = processParams().params.ncclLib;
  if (path.empty()) return {};
  const Found found = probe(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (found.probe == nullptr)
    CINCH_WARN("INIT", "CINCH_NCCL_LIB=%s cannot be used (%s); looking elsewhere", path.c_str(),
               "no such library, or it does not export pncclAllReduce");
  return found;
}

// The caller's own object searches its dependencies, also where those are loaded RTLD_LOCAL.
Found fromCaller(const void* caller) {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return {};
  return probe(dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY));
}

Found fromGlobalScope() {
  void* symbol = dlsym(RTLD_NEXT, kProbe);
  return symbol == nullptr ? Found{} : Found{RTLD_NEXT, symbol};
}

int collectNccl(dl_phdr_info* object, size_t, void* out) {
  if (object->dlpi_name != nullptr && strstr(object->dlpi_name, "libnccl.so") != nullptr)
    static_cast<std::vector<std::string>*>(out)->push_back(object->dlpi_name);
  return 0;
}

Found fromMappedObjects() {
  // The loader's lock is held during the walk, so nothing is opened before it is over.
  std::vector<std::string> paths;
  dl_iterate_phdr(collectNccl, &paths);
  for (const std::string& path : paths)
    if (const Found found = probe(dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY)); found.probe)
      return found;
  return {};
}

Found search(const void* caller) {
  Found found = fromSetting();
  if (found.probe == nullptr) found = fromCaller(caller);
  if (found.probe == nullptr) found = fromGlobalScope();
  if (found.probe == nullptr) found = fromMappedObjects();
  return found;
}

// Fills the table from the object that holds the probe symbol, so that all entries are one NCCL's.
RealNccl* bind(const Found& found, const char* path) {
  auto* real = new RealNccl;  // lives as long as the process
  real->path = path;
  void* handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) handle = found.handle;  // NCCL linked into the program itself
#define CINCH_NCCL(name, parameters) \
  real->name = reinterpret_cast<ncclResult_t(*) parameters>(dlsym(handle, "pnccl" #name));
#include "interpose/real/nccl_functions.def"
#undef CINCH_NCCL
  real->emulator = dlsym(handle, kEmulatorMarkerSymbol) != nullptr;
  if (real->GetVersion != nullptr) real->GetVersion(&real->version);
  CINCH_INFO("INIT", "using NCCL %d from %s", real->version, path);
  return real;
}

const RealNccl* tableOf(const Found& found) {
  static std::mutex mutex;
  static auto& tables = *new std::deque<RealNccl*>;  // never destroyed: calls may come at exit
  Dl_info info{};
  if (dladdr(found.probe, &info) == 0 || info.dli_fname == nullptr) return nullptr;
  const std::lock_guard lock(mutex);
  for (const RealNccl* real : tables)
    if (real->path == info.dli_fname) return real;
  tables.push_back(bind(found, info.dli_fname));
  return tables.back();
}

const RealNccl* resolve(const void* caller) {
  const Found found = search(caller);
  if (found.probe != nullptr) return tableOf(found);
  CINCH_WARN("INIT",
             "cannot find the NCCL of this program: no loaded object exports %s. If NCCL is linked "
             "statically Cinch cannot work below it; else name its file in CINCH_NCCL_LIB",
             kProbe);
  return nullptr;
}

// What every caller so far was bound to; null: nothing was found.
class Callers {
 public:
  const RealNccl* find(const void* caller) {
    {
      const std::shared_lock lock(mutex_);
      if (const auto known = bound_.find(caller); known != bound_.end()) return known->second;
    }
    const RealNccl* real = resolve(caller);
    const std::unique_lock lock(mutex_);
    return bound_.emplace(caller, real).first->second;
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<const void*, const RealNccl*> bound_;
};

}  // namespace

const RealNccl* realNcclOf(const void* caller) {
  static auto& callers = *new Callers;  // never destroyed: calls may come at exit
  thread_local struct {
    const void* caller = nullptr;
    const RealNccl* real = nullptr;
  } last;
  if (last.caller != caller) last = {caller, callers.find(caller)};
  return last.real;
}

}  // namespace cinch
