// Preloaded beside libcinch.so: how often code of libcinch.so has allocated memory on a thread.
// What it allocates through libraries that it calls is theirs.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

struct Range {
  uintptr_t begin = 0, end = 0;
};
std::atomic<bool> isKnown{false};
Range library;

// Where the library's code is; it is loaded before the program begins.
[[gnu::constructor]] void findLibrary() {
  const auto look = [](dl_phdr_info* info, size_t, void*) {
    const char* const name = strrchr(info->dlpi_name, '/');
    if (name == nullptr || strcmp(name, "/libcinch.so") != 0) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& part = info->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
      library = {info->dlpi_addr + part.p_vaddr, info->dlpi_addr + part.p_vaddr + part.p_memsz};
    }
    return 1;
  };
  isKnown = dl_iterate_phdr(look, nullptr) == 1;
}

thread_local uint64_t nAllocations = 0;

void count(const void* caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  if (isKnown.load(std::memory_order_relaxed) && at >= library.begin && at < library.end)
    ++nAllocations;
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" {

uint64_t allocationsByCinch() {
  return nAllocations;
}

// glibc's own allocator, under the names that it keeps for replacements like this one.
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  count(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  count(__builtin_return_address(0));
  return __libc_calloc(n, size);
}
void* realloc(void* memory, size_t size) {
  count(__builtin_return_address(0));
  return __libc_realloc(memory, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"

#pragma GCC visibility pop
