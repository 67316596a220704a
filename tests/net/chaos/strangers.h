// Somebody who connects to the plugin's port and is no peer.
#pragma once

#include <memory>

#include "tests/net/chaos/process.h"

namespace cinch::chaos {

// A process that keeps up to `nOpen` connections to the listener that `handle` leads to, and says
// nothing, garbage, or part of what a peer would say; it ends with the object. Counts into
// `progress.nDone` the connections that it has made.
std::unique_ptr<Process> floodWithStrangers(const Handle& handle, int nOpen, Progress& progress);

}  // namespace cinch::chaos
