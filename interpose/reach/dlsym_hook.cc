// dlsym as the programs see it that fetch NCCL's functions by name (JAX, TensorFlow, Python's
// ctypes): a function that Cinch has an entry point for is answered by that entry point.
//
// Runs in every process that Cinch is preloaded into, and as early as other preloaded libraries ask
// for a symbol, from inside of malloc for one. So nothing here allocates, takes a lock of its own
// or logs, and the file is compiled without sanitizers. Look-ups in RTLD_NEXT and RTLD_DEFAULT do
// not come here: glibc answers them by the return address, so that the assembly hands them on with
// the caller's (dlsym_*.S).
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string_view>

#include "interpose/real/captured_nccl.h"

// From exports.map, sorted: CINCH_ENTRY(ncclAllGather) ...
#define CINCH_ENTRY(name) extern "C" void name();
#include "interpose/reach/entries.inc"
#undef CINCH_ENTRY

namespace cinch {
namespace {

struct Entry {
  std::string_view name;
  void (*function)();
};

constexpr Entry kEntries[] = {
#define CINCH_ENTRY(name) {#name, &name},
#include "interpose/reach/entries.inc"
#undef CINCH_ENTRY
};
constexpr auto kByName = [](const Entry& a, const Entry& b) { return a.name < b.name; };
static_assert(std::is_sorted(std::begin(kEntries), std::end(kEntries), kByName));

// The version under which every glibc of this machine's kind has dlsym. Asking for a newer one
// first could fail, and a failed look-up allocates its message.
#if defined(__x86_64__)
constexpr const char* kBaseVersion = "GLIBC_2.2.5";
#elif defined(__aarch64__)
constexpr const char* kBaseVersion = "GLIBC_2.17";
#endif

// Cinch's entry point of that name; null where it has none.
void* entryOf(std::string_view name) {
  if (!name.starts_with("nccl")) return nullptr;
  const Entry wanted{name, nullptr};
  const Entry* end = std::end(kEntries);
  const Entry* found = std::lower_bound(std::begin(kEntries), end, wanted, kByName);
  const bool known = found != end && found->name == name;
  return known ? reinterpret_cast<void*>(found->function) : nullptr;
}

}  // namespace
}  // namespace cinch

// The C library's dlsym. Threads that come here together find the same.
extern "C" __attribute__((visibility("hidden"))) cinch::DlsymFunction cinchRealDlsym() {
  static constinit std::atomic<cinch::DlsymFunction> real{nullptr};
  cinch::DlsymFunction known = real.load(std::memory_order_relaxed);
  if (known != nullptr) return known;
  known = reinterpret_cast<cinch::DlsymFunction>(dlvsym(RTLD_NEXT, "dlsym", cinch::kBaseVersion));
  real.store(known, std::memory_order_relaxed);
  return known;
}

// A look-up in one object. What is not there stays not there, with the message of the real look-up.
extern "C" __attribute__((visibility("hidden"))) void* cinchDlsym(void* handle, const char* name) {
  const cinch::DlsymFunction real = cinchRealDlsym();
  void* found = real(handle, name);
  if (found == nullptr) return nullptr;
  void* entry = cinch::entryOf(name);
  if (entry == nullptr || entry == found) return found;
  return cinch::capturedNccl().take(real, handle, found) ? entry : found;
}
