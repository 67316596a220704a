// Named ranges of the calling thread, which profilers show among NCCL's own. They cost a function
// pointer's call where no profiler has been injected.
#pragma once

namespace cinch::cuda {

void rangePush(const char* name);
void rangePop();

}  // namespace cinch::cuda
