#include "tests/net/chaos/net.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "net_plugin/socket/handle.h"
#include "tests/net/chaos/failure.h"

namespace cinch::chaos {
namespace {

thread_local std::string warning;

// CINCH_CHAOS_LOG prints all that the plugin says.
void keepWarning(ncclDebugLogLevel level, unsigned long, const char* function, int line,
                 const char* format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (level == NCCL_LOG_WARN) warning = text;
  static const bool prints = getenv("CINCH_CHAOS_LOG") != nullptr;
  if (prints) fprintf(stderr, "[%d] %s:%d %s\n", getpid(), function, line, text);
}

}  // namespace

Net::Net(const char* path) {
  const char* problem = "it has no table";
  for (int version = kNewestVersion; version >= kOldestVersion && problem != nullptr; --version) {
    problem = openPlugin(&plugin_, path, version);
  }
  CINCH_CHECK(problem == nullptr, "%s: %s", path, problem);
  CINCH_CHECK(plugin_.calls->init(&plugin_, keepWarning) == ncclSuccess, "init fails");
  int count = 0;
  CINCH_CHECK((*this)(&PluginCalls::devices, &count) && count > 0, "no device");
  openDevice();
}

// The first listener says where it is.
void Net::openDevice() {
  Handle handle{};
  void* listener = nullptr;
  CINCH_CHECK((*this)(&PluginCalls::listen, 0, handle.data(), &listener), "listen fails: %s",
              lastWarning().c_str());
  CINCH_CHECK((*this)(&PluginCalls::closeListen, listener), "closeListen fails");
  const std::optional<net::Invitation> invitation = net::unpackInvitation(handle);
  CINCH_CHECK(invitation, "the handle says nothing");
  address_ = invitation->endpoints[0].address.text();
}

Net::~Net() {
  CINCH_CHECK(plugin_.calls->finalize(&plugin_) == ncclSuccess, "finalize fails");
}

const std::string& lastWarning() {
  return warning;
}

}  // namespace cinch::chaos
