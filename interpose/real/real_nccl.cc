#include "interpose/real/real_nccl.h"

#include <dlfcn.h>

#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "common/log.h"
#include "interpose/real/nccl_content.h"
#include "interpose/real/nccl_search.h"
#include "interpose/real/shared_object.h"
#include "kernels/device_table.h"

namespace cinch {
namespace {

// Fills the table from the object that holds `symbol`, so that all entries are one NCCL's.
RealNccl* bind(const void* symbol, const std::string& path) {
  auto* real = new RealNccl;  // lives as long as the process
  real->path = path;
  real->handle = handleOf(symbol);
#define CINCH_NCCL(name, parameters) \
  real->name = reinterpret_cast<ncclResult_t(*) parameters>(dlsym(real->handle, "pnccl" #name));
#include "interpose/real/nccl_functions.def"
#undef CINCH_NCCL
  real->emulator = dlsym(real->handle, kEmulatorMarkerSymbol) != nullptr;
  if (real->GetVersion != nullptr) real->GetVersion(&real->version);
  CINCH_INFO("INIT", "using NCCL %d from %s", real->version, path.c_str());
  return real;
}

const RealNccl* tableOf(const void* symbol) {
  static std::mutex mutex;
  static auto& tables = *new std::deque<RealNccl*>;  // never destroyed: calls may come at exit
  const std::string path = pathOf(symbol);
  const std::lock_guard lock(mutex);
  for (const RealNccl* real : tables)
    if (real->path == path) return real;
  tables.push_back(bind(symbol, path));
  return tables.back();
}

// Said once, and only where somebody asks why calls do not come here, or none can.
void explainHiddenNccl() {
  static std::once_flag said;
  std::call_once(said, warnOfHiddenNccl);
}

const RealNccl* resolve(const void* caller) {
  if (void* symbol = searchNccl(caller)) {
    if (logEnabled(LogLevel::info)) explainHiddenNccl();
    return tableOf(symbol);
  }
  CINCH_WARN("INIT",
             "cannot find the NCCL of this program: no loaded object exports %s; name its file in "
             "CINCH_NCCL_LIB",
             kNcclProbe);
  explainHiddenNccl();
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
