// The built plugin as NCCL uses it, through the newest table that it exports.
#pragma once

#include <array>
#include <cstddef>
#include <string>

extern "C" {
#include "tests/net/conformance/plugin.h"
}

namespace cinch::chaos {

using Handle = std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE>;

// One for each process, which holds all that the plugin takes for good once this is made. What
// cannot be loaded ends the process.
class Net {
 public:
  explicit Net(const char* path);
  ~Net();
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  // Of this host: what names a peer, all of which are here.
  const std::string& address() const { return address_; }
  // Calls one function of the table; true where it succeeds.
  template <class Function, class... Arguments>
  bool operator()(Function PluginCalls::*function, Arguments... arguments) {
    return (plugin_.calls->*function)(&plugin_, arguments...) == ncclSuccess;
  }

 private:
  void openDevice();

  Plugin plugin_{};
  std::string address_;
};

// What the plugin said last of a call of this thread that failed.
const std::string& lastWarning();

}  // namespace cinch::chaos
