// What a process under test does: rounds, as it is told.
#pragma once

#include "tests/net/chaos/letters.h"
#include "tests/net/chaos/progress.h"

namespace cinch::chaos {

// Loads the plugin (NET_PLUGIN_PATH) and obeys the letters until it is to retire.
void runWorker(int side, const Post& post, Progress& progress);

}  // namespace cinch::chaos
