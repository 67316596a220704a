// Where the NCCL of a caller is: the order of the search, from what is certain to what is likely.
//
//   CINCH_NCCL_LIB, the caller's own dependencies, the copy that was fetched with dlsym, RTLD_NEXT,
//   any libnccl.so that is mapped, and last (where Cinch stands in for libnccl.so.2 and nothing
//   loaded the real one) the files that the loader would have found.
#pragma once

namespace cinch {

// pncclAllReduce of the NCCL for the code at `caller`, never Cinch's own; null where the search
// failed. May open a library. Thread-safe.
void* searchNccl(const void* caller);

}  // namespace cinch
