#include "emulator/environment.h"

#include <cstdlib>
#include <string_view>

namespace cinch::emulator {

Links links() {
  const char* const given = std::getenv("CINCH_EMULATOR_LINKS");
  const std::string_view text = given == nullptr ? "" : given;
  if (text == "pcie") return Links::pcie;
  return text == "nvlink" ? Links::nvlink : Links::unknown;
}

}  // namespace cinch::emulator
