#include "net_plugin/socket/device.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <fstream>

#include "net_plugin/log.h"

namespace cinch::net {
namespace {

constexpr int kDefaultSpeedMbps = 10000;
// Of connections that were begun and not asked for again; a caller that gives up does not say so.
constexpr size_t kMostConnecting = kMaxConnections;
// How long closing a connection may take where the peer, or the network, is slow; and the end of
// the process, before which helpers do the rest.
constexpr auto kClosingPatience = std::chrono::milliseconds(20);
constexpr auto kLeavingPatience = std::chrono::seconds(1);

// Both ends of a connection: a link, one of its channels, and requests in places that are used
// again.
template <class Channel, class Message>
class SocketRequest : public Request {
 public:
  bool isFree() const { return message_ == nullptr; }

  void begin(Helpers& helpers, Link& link, Channel& channel, std::shared_ptr<Message> message) {
    helpers_ = &helpers;
    link_ = &link;
    channel_ = &channel;
    message_ = std::move(message);
  }

  Result<bool> test(size_t* sizes) override {
    if (message_->outcome == Outcome::pending) move();
    const Outcome outcome = message_->outcome;
    if (outcome == Outcome::pending) return false;
    *sizes = message_->total();
    message_.reset();
    if (outcome == Outcome::failed) return link_->errorOf(*channel_);
    return true;
  }

 private:
  void move() {
    if (link_->isBulk() && helpers_->doBulk()) {
      helpers_->wake(false);
    } else if (!link_->pump()) {
      helpers_->lookAround();
    }
  }

  Helpers* helpers_ = nullptr;
  Link* link_ = nullptr;
  Channel* channel_ = nullptr;
  std::shared_ptr<Message> message_;
};

template <class Base, class Channel, class Message>
class SocketConnection : public Base {
 public:
  SocketConnection(Helpers& helpers, std::shared_ptr<Link> link, std::shared_ptr<Channel> channel)
      : helpers_(helpers), link_(std::move(link)), channel_(std::move(channel)) {}
  ~SocketConnection() override {
    link_->close(channel_);
    link_->flush(kClosingPatience);
  }

  // Registered only to know what NCCL takes back before it closes the connection.
  Result<void*> registerMemory(void* data, size_t nBytes, MemoryKind kind) override {
    if (kind != MemoryKind::host) {
      return errorf(Status::internalError, "sockets move host memory only");
    }
    regions_.push_back(std::make_unique<Region>(static_cast<const char*>(data), nBytes));
    return static_cast<void*>(regions_.back().get());
  }
  Result<void> deregisterMemory(void* memory) override {
    const auto found = std::find_if(regions_.begin(), regions_.end(),
                                    [&](const auto& region) { return region.get() == memory; });
    if (found == regions_.end()) {
      return errorf(Status::invalidArgument, "memory that was not registered here");
    }
    link_->forget(*channel_, **found);
    regions_.erase(found);
    return {};
  }

 protected:
  using OneRequest = SocketRequest<Channel, Message>;

  // Null while all places are taken.
  OneRequest* freeRequest() {
    const auto found = std::find_if(requests_.begin(), requests_.end(),
                                    [](const OneRequest& it) { return it.isFree(); });
    return found == requests_.end() ? nullptr : &*found;
  }

  // `posted`: null where the link takes no more.
  Result<Request*> start(OneRequest& request, Result<std::shared_ptr<Message>> posted) {
    if (!posted) return posted.error();
    const bool isTaken = posted.value() != nullptr;
    if (isTaken) request.begin(helpers_, *link_, *channel_, std::move(posted.value()));
    // Where it is not, nobody may have anything to test that would bring the answers it takes.
    if (link_->isBulk() && helpers_.doBulk()) {
      helpers_.wake(isTaken);
    } else if (!link_->pump() && !isTaken) {
      helpers_.lookAround();
    }
    return isTaken ? &request : nullptr;
  }

  Helpers& helpers_;
  const std::shared_ptr<Link> link_;
  const std::shared_ptr<Channel> channel_;

 private:
  using Region = std::span<const char>;

  std::array<OneRequest, kMaxRequests> requests_;
  std::vector<std::unique_ptr<Region>> regions_;
};

class SocketSend final : public SocketConnection<SendConnection, SendChannel, OutgoingMessage> {
 public:
  using SocketConnection::SocketConnection;

  Result<Request*> send(const void* data, size_t nBytes, int, void*) override {
    OneRequest* request = freeRequest();
    if (request == nullptr) return nullptr;
    return start(*request, link_->post(*channel_, data, nBytes));
  }
  Result<void> check() override {
    link_->pump();
    return link_->check(*channel_);
  }
};

class SocketReceive final
    : public SocketConnection<ReceiveConnection, ReceiveChannel, IncomingMessage> {
 public:
  using SocketConnection::SocketConnection;

  Result<Request*> receive(std::span<const Buffer> buffers) override {
    if (buffers.size() != 1) {
      return errorf(Status::invalidArgument, "%zu receives at once, sockets take 1",
                    buffers.size());
    }
    OneRequest* request = freeRequest();
    if (request == nullptr) return nullptr;
    return start(*request, link_->post(channel_, buffers[0].data, buffers[0].capacity));
  }
  Result<Request*> flush(std::span<const Buffer>) override {
    return errorf(Status::internalError, "sockets move host memory, which needs no flush");
  }
};

// The one line on a connection that stands.
void sayConnected(const char* direction, const Link& link, const Network& network) {
  constexpr const char* kChecksums[] = {"no", "sampled", "all"};
  const SocketSettings& settings = network.settings();
  CINCH_NET_INFO("connection %s %s over %d flows of %s, %s checksums, %s key", direction,
                 link.peer().c_str(), link.nFlows(), network.name().c_str(),
                 kChecksums[static_cast<int>(settings.checksum)],
                 settings.key.empty() ? "no" : "with a");
}

class SocketListener final : public Listener {
 public:
  SocketListener(Network& network, Helpers& helpers, const Token& token)
      : network_(network), helpers_(helpers), token_(token) {}
  ~SocketListener() override { network_.withdraw(token_); }

  Result<std::unique_ptr<ReceiveConnection>> accept() override {
    network_.tick();
    for (const std::shared_ptr<Link>& link : network_.links()) link->pump();
    WaitingChannel waiting = network_.accept(token_);
    if (waiting.link == nullptr) return std::unique_ptr<ReceiveConnection>();
    sayConnected("from", *waiting.link, network_);
    return std::unique_ptr<ReceiveConnection>(
        new SocketReceive(helpers_, std::move(waiting.link), std::move(waiting.channel)));
  }

 private:
  Network& network_;
  Helpers& helpers_;
  const Token token_;
};

int linkSpeedMbps(const std::string& interface) {
  int speed = -1;
  std::ifstream("/sys/class/net/" + interface + "/speed") >> speed;
  return speed > 0 ? speed : kDefaultSpeedMbps;
}

class SocketDevice final : public Device {
 public:
  // Both live as long as the process.
  SocketDevice(Network& network, Helpers& helpers, int speedMbps)
      : network_(network), helpers_(helpers), name_(network.name()) {
    properties_.name = name_.c_str();
    properties_.speedMbps = speedMbps;
    properties_.maxConnections = kMaxConnections;
    properties_.maxBytes = kMaxMessageBytes;
  }

  const Properties& properties() const override { return properties_; }

  Result<std::unique_ptr<Listener>> listen(Handle& handle) override {
    const Invitation invitation = network_.invite();
    packInvitation(invitation, handle);
    return std::unique_ptr<Listener>(new SocketListener(network_, helpers_, invitation.token));
  }

  Result<std::unique_ptr<SendConnection>> connect(Handle& handle, int) override {
    const Result<std::shared_ptr<Connecting>> begun = begin(handle);
    if (!begun) return begun.error();
    const Connecting& connecting = *begun.value();
    network_.tick();
    connecting.link->pump();
    const Result<bool> opened = connecting.link->isOpened(*connecting.channel);
    if (opened && !opened.value()) return std::unique_ptr<SendConnection>();
    forget(connecting);
    setHandleState(handle, nullptr);
    if (opened) {
      sayConnected("to", *connecting.link, network_);
      return std::unique_ptr<SendConnection>(
          new SocketSend(helpers_, connecting.link, connecting.channel));
    }
    connecting.link->close(connecting.channel);
    return opened.error();
  }

 private:
  // What the handle stands for: begun before, or now. A handle comes from another host, so that its
  // word for us counts only where we have written it.
  Result<std::shared_ptr<Connecting>> begin(Handle& handle) {
    std::lock_guard lock(mutex_);
    const std::optional<Invitation> invitation = unpackInvitation(handle);
    if (!invitation) {
      return errorf(Status::invalidArgument,
                    "the handle was not made by Cinch's net plugin: do all ranks use it, and the "
                    "same version of it?");
    }
    const Result<void> transport = checkTransport(*invitation, Transport::sockets);
    if (!transport) return transport.error();
    for (const auto& connecting : connecting_) {
      const bool isIt = connecting.get() == handleState(handle) &&
                        connecting->channel->token == invitation->token;
      if (isIt) return connecting;
    }
    const auto connecting = std::make_shared<Connecting>(network_.connect(*invitation));
    setHandleState(handle, connecting.get());
    connecting_.push_back(connecting);
    if (connecting_.size() > kMostConnecting) dropOldest();
    return connecting;
  }

  // Requires mutex_. Whoever does come back to that handle begins anew.
  void dropOldest() {
    const std::shared_ptr<Connecting> oldest = connecting_.front();
    connecting_.pop_front();
    oldest->link->close(oldest->channel);
  }

  void forget(const Connecting& connecting) {
    std::lock_guard lock(mutex_);
    std::erase_if(connecting_, [&](const auto& it) { return it.get() == &connecting; });
  }

  Network& network_;
  Helpers& helpers_;
  const std::string name_;
  Properties properties_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Connecting>> connecting_;  // the oldest first
};

// The interfaces that flows are spread over.
Result<std::vector<Interface>> chooseInterfaces() {
  const char* list = environmentVariable("NCCL_SOCKET_IFNAME");
  const char* family = environmentVariable("NCCL_SOCKET_FAMILY");
  const std::string names = list == nullptr ? "" : list;
  const std::vector<Interface> all = listInterfaces();
  Result<IpAddress> first = chooseAddress(all, names, family == nullptr ? "" : family);
  if (!first) return first.error();
  std::vector<Interface> chosen;
  for (const Interface& interface : all) {
    const bool named = !names.empty() && matchesInterfaceList(names, interface.name) &&
                       interface.address.family == first.value().family;
    if ((named || interface.address == first.value()) && chosen.size() < kMaxEndpoints) {
      chosen.push_back(interface);
    }
  }
  return chosen;
}

// The end of the process that opened the network; a child that it forked has no part in that.
class Farewell {
 public:
  Farewell(Network& network, StatisticsFile& report) : network_(network), report_(report) {}
  ~Farewell() {
    if (getpid() != process_) return;
    const Clock::time_point end = Clock::now() + kLeavingPatience;
    for (const std::shared_ptr<Link>& link : network_.links()) link->flush(end - Clock::now());
    report_.write();
  }

 private:
  Network& network_;
  StatisticsFile& report_;
  const pid_t process_ = getpid();
};

}  // namespace

Result<Device*> openSocketDevice(const Params& params) {
  Result<SocketSettings> settings = readSocketSettings(params);
  if (!settings) return settings.error();
  Result<std::vector<Interface>> interfaces = chooseInterfaces();
  if (!interfaces) return interfaces.error();
  int speed = 0;
  for (const Interface& interface : interfaces.value()) {
    speed += linkSpeedMbps(interface.name);
    CINCH_NET_INFO("%d flows to each peer, over %s %s", settings.value().nFlows,
                   interface.name.c_str(), interface.address.text().c_str());
  }
  auto network = Network::open(settings.value(), std::move(interfaces.value()));
  if (!network) return network.error();
  auto report = std::make_unique<StatisticsFile>(*network.value(), params);
  auto helpers = Helpers::start(*network.value(), *report, settings.value().nHelpers);
  if (!helpers) return helpers.error();
  // Never destroyed: threads of NCCL's and ours may use them until the process ends.
  Network& forEver = *network.value().release();
  static Farewell farewell(forEver, *report.release());
  return static_cast<Device*>(new SocketDevice(forEver, *helpers.value(), speed));
}

}  // namespace cinch::net
