// Who this host is.
#pragma once

#include <cstdint>
#include <string>

namespace cinch {

// Equal for processes that share a host, as NCCL sees it: from NCCL_HOSTID where that is set, else
// from the host's full name and the kernel's boot id.
uint64_t hostId();

}  // namespace cinch
