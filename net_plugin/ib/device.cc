#include "net_plugin/ib/device.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "net_plugin/ib/connection.h"
#include "net_plugin/ib/setup.h"
#include "net_plugin/log.h"
#include "net_plugin/socket/handle.h"

namespace cinch::net::ib {
namespace {

constexpr int kMaxConnections = 65536;
constexpr size_t kLargestMessage = size_t{1} << 30;
// Of connections that were begun and not asked for again; a caller that gives up does not say so.
constexpr size_t kMostConnecting = 4096;

// The handle of a socket listener as that of a verbs listener, or back.
Result<void> changeTransport(Handle& handle, Transport to) {
  std::optional<Invitation> invitation = unpackInvitation(handle);
  if (!invitation) {
    return errorf(Status::invalidArgument,
                  "the handle was not made by Cinch's net plugin: do all ranks use it, and the "
                  "same version of it?");
  }
  invitation->transport = to;
  packInvitation(*invitation, handle);
  return {};
}

class VerbsListener final : public Listener {
 public:
  VerbsListener(const Site& site, std::unique_ptr<Listener> sockets)
      : caretaker_(*site.caretaker), accepting_(site, std::move(sockets)) {}

  Result<std::unique_ptr<ReceiveConnection>> accept() override {
    auto receiver = accepting_.step();
    if (!receiver) return receiver.error();
    if (receiver.value() == nullptr) return std::unique_ptr<ReceiveConnection>();
    return connectionOf(std::move(receiver.value()), caretaker_);
  }

 private:
  Caretaker& caretaker_;
  Accepting accepting_;
};

class VerbsDevice final : public Device {
 public:
  // `nBefore`: devices of the same card that have been opened.
  VerbsDevice(Site site, int nBefore)
      : site_(std::move(site)), name_(site_.ports.front()->name()), pciPath_(port().pciPath()) {
    properties_.name = name_.c_str();
    properties_.pciPath = pciPath_.empty() ? nullptr : pciPath_.c_str();
    properties_.guid = port().guid();
    properties_.takesDeviceMemory = port().deviceMemory().byAddress;
    properties_.takesDmabuf = port().deviceMemory().byDmabuf;
    properties_.speedMbps = port().speedMbps();
    properties_.port = port().number() + nBefore;
    properties_.maxConnections = kMaxConnections;
    properties_.maxReceives = static_cast<int>(kMaxGroup);
    properties_.maxBytes = kLargestMessage;
  }

  const Properties& properties() const override { return properties_; }

  Result<std::unique_ptr<Listener>> listen(Handle& handle) override {
    auto sockets = site_.sockets->listen(handle);
    if (!sockets) return sockets.error();
    CINCH_TRY(changeTransport(handle, Transport::verbs));
    return std::unique_ptr<Listener>(new VerbsListener(site_, std::move(sockets.value())));
  }

  Result<std::unique_ptr<SendConnection>> connect(Handle& handle, int trafficClass) override {
    const auto begun = begin(handle, trafficClass);
    if (!begun) return begun.error();
    auto sender = begun.value()->step();
    if (sender && sender.value() == nullptr) return std::unique_ptr<SendConnection>();
    forget(begun.value().get());
    setHandleState(handle, nullptr);
    if (!sender) return sender.error();
    return connectionOf(std::move(sender.value()), *site_.caretaker);
  }

 private:
  struct Begun {
    Token token{};
    std::shared_ptr<Connecting> connecting;
  };

  Port& port() { return *site_.ports.front(); }

  // What the handle stands for: begun before, or now. A handle comes from another host, so that its
  // word for us counts only where we have written it.
  Result<std::shared_ptr<Connecting>> begin(Handle& handle, int trafficClass) {
    const std::optional<Invitation> invitation = unpackInvitation(handle);
    if (invitation) CINCH_TRY(checkTransport(*invitation, Transport::verbs));
    Handle sockets = handle;
    CINCH_TRY(changeTransport(sockets, Transport::sockets));
    std::lock_guard lock(mutex_);
    for (const Begun& begun : begun_) {
      const bool isIt =
          begun.connecting.get() == handleState(handle) && begun.token == invitation->token;
      if (isIt) return begun.connecting;
    }
    auto connecting = std::make_shared<Connecting>(site_, sockets, trafficClass);
    setHandleState(handle, connecting.get());
    begun_.push_back({invitation->token, connecting});
    if (begun_.size() > kMostConnecting) begun_.pop_front();
    return connecting;
  }

  void forget(const Connecting* connecting) {
    std::lock_guard lock(mutex_);
    std::erase_if(begun_, [&](const Begun& it) { return it.connecting.get() == connecting; });
  }

  const Site site_;
  const std::string name_;
  const std::string pciPath_;
  Properties properties_;
  std::mutex mutex_;
  std::deque<Begun> begun_;  // the oldest first
};

// The active ports of one device that are meant.
void openPorts(const VerbsApi& verbs, ibv_device* device, const Settings& settings,
               std::vector<std::unique_ptr<Port>>& all) {
  constexpr uint8_t kMostPorts = 2;
  const std::string name = verbs.getDeviceName(device);
  // EFA and iWARP have no reliable queue pairs, or make them otherwise.
  if (device->transport_type != IBV_TRANSPORT_IB) {
    CINCH_NET_INFO("%s is neither InfiniBand nor RoCE", name.c_str());
    return;
  }
  std::string said;
  for (uint8_t number = 1; number <= kMostPorts; ++number) {
    if (!isMeant(settings.devices, name, number)) continue;
    auto port = Port::open(verbs, device, number, settings);
    // What is wrong with the device is said of it once.
    if (!port && port.error().message != said) {
      said = port.error().message;
      CINCH_NET_WARN("%s", said.c_str());
    }
    if (!port || port.value() == nullptr) continue;
    CINCH_NET_INFO("%s is active: %s; %s", port.value()->name().c_str(),
                   port.value()->choice().c_str(), textOf(port.value()->deviceMemory()));
    all.push_back(std::move(port.value()));
  }
}

// This port first, then those that may take over: of the same kind of link, and with access to all
// memory that it has access to.
Site siteOf(const std::vector<std::unique_ptr<Port>>& ports, size_t first, Device& sockets,
            Caretaker& caretaker) {
  Site site{&sockets, &caretaker, {}};
  for (size_t i = 0; i < ports.size(); ++i) {
    Port* port = ports[(first + i) % ports.size()].get();
    const bool isAlike = port->card().link == ports[first]->card().link &&
                         port->deviceMemory().covers(ports[first]->deviceMemory());
    if (isAlike) site.ports.push_back(port);
  }
  return site;
}

// Before anything is registered. On kernels that do not copy registered pages at a fork (before
// 5.12), what a process writes while it has children would go where the device does not look. As
// NCCL does; libibverbs does it by itself where RDMAV_FORK_SAFE is set.
void prepareForForks(const VerbsApi& verbs) {
  const int result = verbs.forkInit();
  if (result == 0) return;
  CINCH_NET_INFO(
      "ibv_fork_init: %s; on Linux before 5.12 set RDMAV_FORK_SAFE=1 if the program forks",
      strerror(result < 0 ? errno : result));
}

}  // namespace

Devices openDevices(const VerbsApi& verbs, const Settings& settings, Device& sockets,
                    Caretaker& caretaker) {
  prepareForForks(verbs);
  int nDevices = 0;
  ibv_device** list = verbs.getDeviceList(&nDevices);
  Devices all;
  for (int i = 0; list != nullptr && i < nDevices; ++i) {
    openPorts(verbs, list[i], settings, all.ports);
  }
  if (list != nullptr) verbs.freeDeviceList(list);
  std::map<std::string, int> nOfCard;  // by path
  for (size_t i = 0; i < all.ports.size(); ++i) {
    const std::string card = all.ports[i]->pciPath();
    const int nBefore = card.empty() ? 0 : nOfCard[card]++;
    all.devices.push_back(
        std::make_unique<VerbsDevice>(siteOf(all.ports, i, sockets, caretaker), nBefore));
  }
  return all;
}

}  // namespace cinch::net::ib
