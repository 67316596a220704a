// Descriptors are the program's, and NCCL's, whose jobs hang or end where there are none left.
// Cinch takes some only where there are plenty.
#pragma once

#include <cstddef>

#include "common/result.h"

namespace cinch {

// What `ulimit -n` has to allow before Cinch opens a connection of its own. NCCL alone takes a
// dozen or more for each peer and communicator; jobs with less than this live near their limit.
inline constexpr size_t kFewestDescriptors = 1024;

// An error where this process may open fewer, or has half of what it may open in use, or would have
// with `nMore`, even when it has taken all that an administrator allows it. It names what to do.
Result<void> haveSpareDescriptors(size_t nMore = 0);

// Takes all that an administrator allows this process, as NCCL does in the process that makes an id
// (2.28, bootstrap.cc: setFilesLimit).
void raiseDescriptorLimit();

// How many this process may open.
size_t descriptorLimit();

}  // namespace cinch
