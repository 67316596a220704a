// Which network a communicator uses, and how long: NCCL's choice among the plugins that
// NCCL_NET_PLUGIN lists and the built-in sockets.
//
// A plugin is loaded when a communicator first looks at it. The first network wins that starts, has
// a device, and has the wanted name; a plugin that does not is passed over for good, and where a
// plugin wins, the other plugins are. A plugin's library is closed when its last communicator ends,
// and loaded anew for the next.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "common/result.h"
#include "emulator/nccl/net.h"
#include "emulator/nccl/plugin_library.h"

namespace cinch::emulator {

class Networks;

// One communicator's use of a network.
class Network {
 public:
  Network(Network&& other) noexcept;
  Network& operator=(Network&&) = delete;
  // Everything of it must be closed by then.
  ~Network();

  NetTransport& transport() const { return *transport_; }
  void* context() const { return context_; }
  int device() const { return 0; }

 private:
  friend class Networks;
  Network(Networks& owner, size_t index, NetTransport& transport, void* context)
      : owner_(&owner), index_(index), transport_(&transport), context_(context) {}

  Networks* owner_;  // null: moved from
  size_t index_;
  NetTransport* transport_;
  void* context_;
};

// All networks of a process. Thread-safe.
class Networks {
 public:
  // `nHeld`: uses that every plugin has from the start (NCCL_NET_PLUGIN_REF_COUNT): with one or
  // more it is never unloaded.
  Networks(const std::vector<std::string>& plugins, int nHeld);

  // Chooses and starts one, whose name is `wanted` in upper or lower case; empty: any.
  Result<Network> choose(const std::string& wanted, uint64_t commId, int trafficClass);

 private:
  friend class Network;

  enum class State { disabled, unusable, unloaded, loaded, started };
  struct Candidate {
    std::string plugin;  // as listed; empty: built in
    State state = State::unloaded;
    int nUses = 0;
    std::unique_ptr<PluginLibrary> library;
    std::unique_ptr<NetTransport> transport;  // outlived by the library

    bool isBuiltIn() const { return plugin.empty(); }
    bool isUsable() const { return state >= State::loaded; }
  };

  static void load(Candidate& candidate);
  static bool start(Candidate& candidate, uint64_t commId, int trafficClass, void** context);
  void disableOthers(const Candidate& chosen);
  void release(size_t index, void* context);

  std::mutex mutex_;
  std::vector<Candidate> candidates_;
};

// The process's own, as the environment said at the first call.
Networks& processNetworks();

// The name that NCCL_NET asks for; else `configured`.
std::string wantedNetwork(const std::string& configured);

}  // namespace cinch::emulator
