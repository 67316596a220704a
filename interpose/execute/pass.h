// A call to the real NCCL that may be made now or later.
#pragma once

#include <functional>

#include "common/nccl_types.h"

namespace cinch {

using KeptCall = std::function<ncclResult_t()>;

// Refers to a callable of the caller's, which holds copies of the call's arguments. Calling it
// costs no allocation; only a call that is kept for later is copied.
class Pass {
 public:
  template <class Call>
  explicit Pass(const Call& call)
      : call_(&call),
        run_([](const void* it) { return (*static_cast<const Call*>(it))(); }),
        keep_([](const void* it) { return KeptCall(*static_cast<const Call*>(it)); }) {}

  ncclResult_t operator()() const { return run_(call_); }
  KeptCall keep() const { return keep_(call_); }

 private:
  const void* call_;
  ncclResult_t (*run_)(const void*);
  KeptCall (*keep_)(const void*);
};

}  // namespace cinch
