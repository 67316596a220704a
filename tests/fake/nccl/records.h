// One record for every public function of NCCL 2.18 to 2.32.
#pragma once

#include "tests/fake/nccl/recorder.h"

namespace cinch::fake {

struct Records {
#define FAKE_NCCL(Name, ...) Record Name{#Name};
#include "tests/fake/nccl/functions.def"
#undef FAKE_NCCL
  Record GetErrorString{"GetErrorString"};
  Record GetLastError{"GetLastError"};
  Record ResetDebugInit{"ResetDebugInit"};
  Record ParamDumpAll{"ParamDumpAll"};
};

extern Records records;

}  // namespace cinch::fake
