// Who this host is: a name for messages, and a number that ranks on one host share.
#pragma once

#include <cstdint>
#include <string>

namespace cinch {

// The host's name up to the first dot.
std::string hostName();

// Equal for processes that share a host, as NCCL sees it: from NCCL_HOSTID where that is set, else
// from the host's full name and the kernel's boot id.
uint64_t hostId();

}  // namespace cinch
