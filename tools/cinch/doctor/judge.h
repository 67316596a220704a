// What facts mean for a job. Pure. Each gives a check for everything that is wrong, or one that
// says that nothing is.
#pragma once

#include "tools/cinch/doctor/check.h"
#include "tools/cinch/doctor/facts.h"

namespace cinch::doctor {

// The parameters, and the files that they name.
Checks judgeSettings(const SettingFacts& facts);
// Settings that contradict each other, or what the machine has.
Checks judgeConflicts(const SettingFacts& facts, const NetworkFacts& network);

Checks judgeLibraries(const std::vector<LibraryFact>& libraries, const DriverFacts& driver);

// Best first: the first is what a job would use.
Checks judgeNccl(const std::vector<NcclFact>& found, const DriverFacts& driver);

Checks judgeDriver(const DriverFacts& facts);
Checks judgeNetwork(const NetworkFacts& facts);
Checks judgeLimits(const LimitFacts& facts);
Checks judgePlugins(const std::vector<PluginFact>& plugins);
Checks judgeExchange(const ExchangeFacts& facts);
Checks judgeProgram(const ProgramFacts& facts);

}  // namespace cinch::doctor
