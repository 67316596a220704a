#include "common/network/descriptors.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

#include "common/network/socket.h"

namespace cinch {
namespace {

// The kernel gives out the lowest number that is free.
bool areSpare(size_t limit, size_t nMore) {
  const int next = Socket(eventfd(0, EFD_CLOEXEC)).fd();
  return limit >= kFewestDescriptors && next >= 0 && static_cast<size_t>(next) + nMore < limit / 2;
}

}  // namespace

size_t descriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<size_t>(limit.rlim_cur) : 0;
}

void raiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // an improvement, not a condition
}

Result<void> haveSpareDescriptors(size_t nMore) {
  if (areSpare(descriptorLimit(), nMore)) return {};
  raiseDescriptorLimit();
  const size_t limit = descriptorLimit();
  if (areSpare(limit, nMore)) return {};
  if (limit >= kFewestDescriptors && areSpare(limit, 0))
    return errorf(Status::systemError,
                  "of the %zu descriptors that this process may open, more than half would be in "
                  "use when NCCL has opened some %zu more for this: raise ulimit -n",
                  limit, nMore);
  if (limit < kFewestDescriptors)
    return errorf(Status::systemError,
                  "this process may open %zu descriptors only, and leaves them to NCCL: "
                  "ulimit -n %zu or more",
                  limit, kFewestDescriptors);
  return errorf(Status::systemError,
                "this process has half of the %zu descriptors in use that it may open, and leaves "
                "the others to NCCL: raise ulimit -n",
                limit);
}

}  // namespace cinch
