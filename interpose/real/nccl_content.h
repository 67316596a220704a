// What a library or program file has to do with NCCL, found without running it: whether it carries
// an NCCL of its own, and whether Cinch can reach the calls of it.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"

namespace cinch {

struct NcclContent {
  std::string version;       // of the NCCL compiled into it, "2.28.9"; empty: none
  bool exportsNccl = false;  // its dynamic symbols offer NCCL's functions to others
  bool importsNccl = false;  // it calls the NCCL functions of another object
  bool bindsNccl = false;    // its own calls of NCCL's functions go through the loader
  bool isProgram = false;
  bool isNccl = false;   // it is called libnccl
  bool isCinch = false;  // under the name of NCCL

  // It carries an NCCL whose calls are bound inside of it, out of reach of any preloaded library:
  // linked statically and not exported, or with -Bsymbolic, or into a program, whose own symbols
  // always win.
  bool hidesNccl() const {
    return !version.empty() && !isNccl && (isProgram || !exportsNccl || !bindsNccl);
  }
};

// Reads the dynamic symbols and the constants of the file, not its code. Errors: no ELF file, or
// damaged.
Result<NcclContent> readNcclContent(const std::string& path);

// One line for the user about a file that hidesNccl().
std::string hiddenNcclText(const std::string& path, const NcclContent& content);

// Logs, as warnings, which mapped objects of this process hide an NCCL. Reads the constants of
// every mapped file: for one who asked for details.
void warnOfHiddenNccl();

}  // namespace cinch
