// Looks at the machine and the environment for `cinch doctor`. Nothing of CUDA is loaded; what may
// crash is tried in a child. `root` stands in front of /proc and /sys: empty but in tests.
#pragma once

#include <string>
#include <vector>

#include "tools/cinch/doctor/facts.h"

namespace cinch::doctor {

// The settings of this process and the files that they name.
SettingFacts gatherSettings(const Variables& variables);

// The libraries beside this program. `cudaMajor` becomes that of the CUDA codec, 0 without one.
std::vector<LibraryFact> gatherLibraries(int& cudaMajor);

// Files with NCCL's functions, best first: CINCH_NCCL_LIB, what Python's packages hold where
// `program` is a Python or there is none, what the loader finds.
std::vector<NcclFact> gatherNccl(const Variables& variables, const ProgramFacts& program);

DriverFacts gatherDriver(const std::string& root, int cudaMajor);
NetworkFacts gatherNetwork(const std::string& root, const Variables& variables);
LimitFacts gatherLimits(const std::string& root, const Params& params, bool hasVerbs);
std::vector<PluginFact> gatherPlugins(const Variables& variables);
ProgramFacts gatherProgram(const std::vector<std::string>& command);

// Two ranks of this program on the emulator, under Cinch.
ExchangeFacts gatherExchange(const Variables& variables);

}  // namespace cinch::doctor
