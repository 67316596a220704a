// The facts that a program compiled against one nccl.h takes for granted of another.
#pragma once

#include <map>
#include <string>

namespace cinch::test {

using NcclLayout = std::map<std::string, long>;  // "sizeof ncclConfig_t" -> 96

NcclLayout emulatorLayout();
NcclLayout realLayout();  // where an nccl.h is installed

}  // namespace cinch::test
