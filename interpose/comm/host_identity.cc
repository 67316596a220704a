#include "interpose/comm/host_identity.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/param.h"
#include "interpose/comm/hash.h"

namespace cinch {
namespace {

std::string fullHostName() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

// Tells hosts of the same name apart; empty where the kernel does not say.
std::string bootId() {
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  char text[64];
  ssize_t n = read(fd, text, sizeof text);
  ::close(fd);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
}

}  // namespace

std::string hostName() {
  std::string name = fullHostName();
  return name.substr(0, name.find('.'));
}

uint64_t hostId() {
  const char* chosen = environmentVariable("NCCL_HOSTID");
  if (chosen != nullptr && *chosen != '\0') return hashText(chosen);
  return hashText(fullHostName() + "\n" + bootId());
}

}  // namespace cinch
