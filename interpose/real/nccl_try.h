// Turns a failed NCCL call into an Error of the enclosing function.
#pragma once

#include "common/nccl_types.h"
#include "common/result.h"

namespace cinch {

// NCCL has taken a call, whether it is through with it or not.
inline bool isFine(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}
// NCCL found something wrong with a call, and has done nothing.
inline bool isRefused(ncclResult_t result) {
  return result == ncclInvalidArgument || result == ncclInvalidUsage;
}

inline Error ncclCallError(const char* what, ncclResult_t result) {
  return errorf(static_cast<Status>(result), "%s: NCCL returned error %d", what, result);
}

}  // namespace cinch

#define CINCH_TRY_NCCL(call, what)                               \
  do {                                                           \
    if (const ncclResult_t nccl_ = (call); nccl_ != ncclSuccess) \
      return ::cinch::ncclCallError(what, nccl_);                \
  } while (0)
