#include "bench/passthrough/allocation_count.h"

#include <cerrno>
#include <cstddef>

namespace {

thread_local uint64_t nAllocations = 0;

}  // namespace

extern "C" {

// glibc's own allocator, under the names that it keeps for replacements like this one.
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  ++nAllocations;
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  ++nAllocations;
  return __libc_calloc(count, size);
}

void* realloc(void* memory, size_t size) {
  ++nAllocations;
  return __libc_realloc(memory, size);
}

void* memalign(size_t alignment, size_t size) {
  ++nAllocations;
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
  *memory = memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"

uint64_t cinch::allocationCount() {
  return nAllocations;
}
