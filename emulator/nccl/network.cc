#include "emulator/nccl/network.h"

#include <strings.h>

#include <cstdlib>
#include <utility>

#include "common/param.h"
#include "emulator/nccl/debug.h"
#include "emulator/nccl/net_plugin.h"

namespace cinch::emulator {
namespace {

int heldUses() {
  const char* text = environmentVariable("NCCL_NET_PLUGIN_REF_COUNT");
  return text == nullptr ? 0 : atoi(text);
}

// No device takes part in moving bytes: neither NCCL's kernels nor others are here to do it.
bool isHostDevice(NetTransport& transport) {
  NetProperties properties;
  if (transport.getProperties(0, &properties) != ncclSuccess) return false;
  logInfo("NET/%s : device 0 is %s, %d Mb/s, ptrSupport %d, maxRecvs %d", transport.name(),
          properties.name.c_str(), properties.speedMbps, properties.pointerSupport,
          properties.maxRecvs);
  if (properties.deviceType == kNetDeviceHost) return true;
  logWarn("NET/%s : unknown device type %d", transport.name(), properties.deviceType);
  return false;
}

bool hasDevices(NetTransport& transport) {
  int nDevices = 0;
  return transport.devices(&nDevices) == ncclSuccess && nDevices > 0;
}

}  // namespace

Network::Network(Network&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)),
      index_(other.index_),
      transport_(other.transport_),
      context_(other.context_) {}

Network::~Network() {
  if (owner_ != nullptr) owner_->release(index_, context_);
}

Networks::Networks(const std::vector<std::string>& plugins, int nHeld) {
  for (const std::string& plugin : plugins) {
    Candidate& candidate = candidates_.emplace_back();
    candidate.plugin = plugin;
    candidate.nUses = nHeld;
  }
  Candidate& builtIn = candidates_.emplace_back();
  builtIn.transport = makeSocketTransport();
  builtIn.state = State::loaded;
}

void Networks::load(Candidate& candidate) {
  candidate.state = State::unusable;
  std::unique_ptr<PluginLibrary> library = PluginLibrary::open(candidate.plugin);
  if (library == nullptr) return;
  candidate.transport = adaptNetPlugin([&](const char* name) { return library->symbol(name); });
  if (candidate.transport == nullptr) {
    logInfo("NET/Plugin: %s has no net plugin of version 8 to 12", library->path().c_str());
    return;
  }
  logInfo("Successfully loaded external network plugin %s", library->path().c_str());
  candidate.library = std::move(library);
  candidate.state = State::loaded;
}

// Devices are counted once per load; a context is for one communicator.
bool Networks::start(Candidate& candidate, uint64_t commId, int trafficClass, void** context) {
  NetTransport& transport = *candidate.transport;
  *context = nullptr;
  bool started = transport.init(context, commId, trafficClass) == ncclSuccess;
  if (started && candidate.state == State::loaded && !hasDevices(transport)) {
    transport.finalize(*context);
    started = false;
  }
  candidate.state = started ? State::started : State::disabled;
  logInfo("%s NET plugin %s", started ? "Initialized" : "Failed to initialize", transport.name());
  if (!started || isHostDevice(transport)) return started;
  transport.finalize(*context);
  return false;
}

Result<Network> Networks::choose(const std::string& wanted, uint64_t commId, int trafficClass) {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < candidates_.size(); ++i) {
    Candidate& candidate = candidates_[i];
    if (candidate.state == State::unloaded) load(candidate);
    if (!candidate.isUsable()) continue;
    const char* name = candidate.transport->name();
    if (!wanted.empty() && strcasecmp(wanted.c_str(), name) != 0) continue;
    void* context = nullptr;
    if (!start(candidate, commId, trafficClass, &context)) continue;
    ++candidate.nUses;
    logInfo("Assigned NET plugin %s to comm", name);
    disableOthers(candidate);
    return Network(*this, i, *candidate.transport, context);
  }
  return errorf(Status::invalidUsage, "Failed to initialize any NET plugin");
}

void Networks::disableOthers(const Candidate& chosen) {
  if (chosen.isBuiltIn()) return;
  for (Candidate& other : candidates_) {
    if (&other != &chosen && !other.isBuiltIn()) other.state = State::disabled;
  }
}

void Networks::release(size_t index, void* context) {
  std::lock_guard lock(mutex_);
  Candidate& candidate = candidates_[index];
  candidate.transport->finalize(context);
  if (--candidate.nUses > 0 || candidate.isBuiltIn()) return;
  logInfo("Unloading plugin %s", candidate.plugin.c_str());
  candidate.transport.reset();
  candidate.library.reset();
  candidate.state = State::unloaded;
}

Networks& processNetworks() {
  // Never destroyed: a process may exit while communicators work.
  static auto* networks =
      new Networks(listedPlugins(environmentVariable("NCCL_NET_PLUGIN")), heldUses());
  return *networks;
}

std::string wantedNetwork(const std::string& configured) {
  const char* name = environmentVariable("NCCL_NET");
  return name == nullptr ? configured : name;
}

}  // namespace cinch::emulator
