// The communicators that the application holds, by the handle it knows them by.
#pragma once

#include <memory>

#include "emulator/nccl/communicator.h"

namespace cinch::emulator {

// A handle keeps its object only until forget(); a thread inside a call keeps it for as long as it
// needs.
ncclComm_t enlist(std::shared_ptr<Communicator> communicator);
std::shared_ptr<Communicator> find(ncclComm_t handle);  // null: not, or no longer, a communicator
void forget(const Communicator& communicator);

}  // namespace cinch::emulator
