#include "tests/unit/kernels/cuda/fibre.h"

#if defined(CINCH_WATCHED_BY_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#elif defined(CINCH_WATCHED_BY_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace cinch::simt {
namespace {

// Whom a switch comes from: AddressSanitizer wants to know the stack that is left.
[[maybe_unused]] Fibre* left = nullptr;

}  // namespace

Fibre::Fibre() {
#if defined(CINCH_WATCHED_BY_THREAD_SANITIZER)
  ofThreadSanitizer_ = __tsan_get_current_fiber();
#endif
}

Fibre::Fibre(void (*main)()) : stack_(std::make_unique<char[]>(kStackBytes)) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_.get();
  context_.uc_stack.ss_size = kStackBytes;
  context_.uc_link = nullptr;
  makecontext(&context_, main, 0);
  bottom_ = stack_.get();
  nBytes_ = kStackBytes;
#if defined(CINCH_WATCHED_BY_THREAD_SANITIZER)
  ofThreadSanitizer_ = __tsan_create_fiber(0);
#endif
}

void Fibre::switchTo(Fibre& next) {
#if defined(CINCH_WATCHED_BY_THREAD_SANITIZER)
  __tsan_switch_to_fiber(next.ofThreadSanitizer_, __tsan_switch_to_fiber_no_sync);
#elif defined(CINCH_WATCHED_BY_ADDRESS_SANITIZER)
  left = this;
  __sanitizer_start_switch_fiber(&fakeStack_, next.bottom_, next.nBytes_);
#endif
  swapcontext(&context_, &next.context_);
  arrive();
}

void Fibre::arrive() {
#if defined(CINCH_WATCHED_BY_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fakeStack_, &left->bottom_, &left->nBytes_);
#endif
}

void releaseMemory([[maybe_unused]] void* address) {
#if defined(CINCH_WATCHED_BY_THREAD_SANITIZER)
  __tsan_release(address);
#endif
}

void acquireMemory([[maybe_unused]] void* address) {
#if defined(CINCH_WATCHED_BY_THREAD_SANITIZER)
  __tsan_acquire(address);
#endif
}

Courier::Courier() {
#if defined(CINCH_WATCHED_BY_THREAD_SANITIZER)
  ofThreadSanitizer_ = __tsan_create_fiber(0);
#endif
}

// For ThreadSanitizer another fibre does it: it runs nothing else.
void Courier::carry([[maybe_unused]] void* from, [[maybe_unused]] void* to) {
#if defined(CINCH_WATCHED_BY_THREAD_SANITIZER)
  void* const own = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(ofThreadSanitizer_, __tsan_switch_to_fiber_no_sync);
  __tsan_acquire(from);
  __tsan_release(to);
  __tsan_switch_to_fiber(own, __tsan_switch_to_fiber_no_sync);
#endif
}

void forbidMemory([[maybe_unused]] void* first, [[maybe_unused]] size_t nBytes) {
#if defined(CINCH_WATCHED_BY_ADDRESS_SANITIZER)
  __asan_poison_memory_region(first, nBytes);
#endif
}

void allowMemory([[maybe_unused]] void* first, [[maybe_unused]] size_t nBytes) {
#if defined(CINCH_WATCHED_BY_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(first, nBytes);
#endif
}

}  // namespace cinch::simt
