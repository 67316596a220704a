#include "common/host_name.h"

#include <unistd.h>

namespace cinch {

std::string fullHostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string hostName() {
  const std::string full = fullHostName();
  return full.substr(0, full.find('.'));
}

}  // namespace cinch
