#include "interpose/agree/host_identity.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/host_name.h"
#include "common/param.h"

namespace cinch {
namespace {

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

uint64_t hostId() {
  const char* chosen = environmentVariable("NCCL_HOSTID");
  if (chosen != nullptr && *chosen != '\0') return hashText(chosen);
  return hashText(fullHostName() + "\n" + bootId());
}

}  // namespace cinch
