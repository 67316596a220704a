// The NCCL whose functions the program fetched with dlsym.
//
// Such a program (JAX, TensorFlow, anything through ctypes) need not depend on NCCL at all, so the
// code that later calls does not say which NCCL it means. Only one copy is therefore ever captured:
// functions of a second one are left to the program as they are (docs/decisions/005).
#pragma once

#include <atomic>

namespace cinch {

using DlsymFunction = void* (*)(void* handle, const char* name);

class CapturedNccl {
 public:
  constexpr CapturedNccl() = default;

  // Whether a call of `function`, which `find` gave for `handle`, may go through Cinch instead: it
  // belongs to a real NCCL, and that is the copy captured earlier or, the first time, from now on.
  // Takes no lock of its own and allocates nothing; leaves no dlerror(). Thread-safe.
  bool take(DlsymFunction find, void* handle, const void* function);

  // pncclAllReduce of the captured copy; null where there is none.
  void* probe() const { return probe_.load(std::memory_order_acquire); }

 private:
  std::atomic<void*> probe_{nullptr};
};

// The one of the process.
CapturedNccl& capturedNccl();

}  // namespace cinch
