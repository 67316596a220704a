#include "net_plugin/ib/setup.h"

#include <algorithm>
#include <cstring>

#include "net_plugin/log.h"

namespace cinch::net::ib {
namespace {

// Ready is this, and the number of lanes that stand.
constexpr uint8_t kReady = 'R';

// A connection's own lane and one that takes over: each costs both hosts queues and memory.
constexpr size_t kMostLanes = 2;

// While the kernel learns the address of a peer that it has not spoken to.
constexpr int kAddressTries = 3;

// The sending side writes a message's parts and announcements, the receiving side grants, for which
// it needs room, and takes announcements.
constexpr QueueDepth kSenderDepth = {2 * kPlaces, 1};
constexpr QueueDepth kReceiverDepth = {kMaxRequests, kPlaces};

LaneShape senderShape(const Site& site) {
  return {.nQueues = site.ports.front()->settings().nQueues, .depth = kSenderDepth};
}

// The first port speaks for all: those that take over reach the same memory.
LaneShape receiverShape(const Site& site) {
  const Port& port = *site.ports.front();
  const bool flushes = port.deviceMemory().any() && port.settings().flushes;
  return {.nQueues = port.settings().nQueues,
          .depth = kReceiverDepth,
          .nFlushes = flushes ? uint32_t{kPlaces} : 0};
}

static_assert(kHandleBytes + kMaxCardBytes <= kMaxControlBytes);

// The lanes of one side, over as many of the site's ports as there is room for in a card.
template <class Slots>
Result<void> makeLanes(const Site& site, size_t mostLanes, const LaneShape& shape, Slots& slots,
                       Wiring& wiring) {
  const size_t nLanes =
      std::min({site.ports.size(), kMostLanes, kMaxQueues / shape.nQueues, mostLanes});
  while (wiring.lanes.size() < nLanes) {
    auto lane = Lane::create(*site.ports[wiring.lanes.size()], shape, &slots, sizeof(Slots));
    if (!lane) return lane.error();
    wiring.lanes.push_back(std::move(lane.value()));
  }
  return {};
}

template <class Slots>
Card cardOf(const Wiring& wiring, const Slots& slots) {
  Card card{.ringAddress = reinterpret_cast<uint64_t>(&slots), .ports = {}, .queues = {}};
  for (const auto& lane : wiring.lanes) lane->describe(card);
  return card;
}

// Lanes that only one side has are of no use, nor are those that do not lead to the peer: the first
// has to.
Result<void> join(Wiring& wiring, const Card& ours, Card theirs, int trafficClass) {
  CINCH_TRY(checkFit(ours, theirs));
  const auto wished = static_cast<uint8_t>(std::max(trafficClass, 0));
  wiring.lanes.resize(std::min(wiring.lanes.size(), theirs.ports.size()));
  CINCH_TRY(wiring.lanes.front()->connect(theirs, 0, {wished, kAddressTries}));
  for (size_t i = 1; i < wiring.lanes.size(); ++i) {
    const Result<void> connected = wiring.lanes[i]->connect(theirs, i, {wished});
    if (connected) continue;
    CINCH_NET_WARN("%s: the connection cannot go on over this port",
                   connected.error().message.c_str());
    wiring.lanes.resize(i);
  }
  wiring.peer = std::move(theirs);
  return {};
}

void sayConnected(const char* direction, const Wiring& wiring) {
  const PortCard& peer = wiring.peer.ports.front();
  const std::string there =
      peer.link == LinkKind::ethernet ? textOf(peer.gid) : "LID " + std::to_string(peer.lid);
  CINCH_NET_INFO("connection %s %s over %zu queues of %s%s%s", direction, there.c_str(),
                 wiring.lanes.front()->nQueues(), wiring.lanes.front()->port().name().c_str(),
                 wiring.lanes.size() > 1 ? ", failing over to " : "",
                 wiring.lanes.size() > 1 ? wiring.lanes[1]->port().name().c_str() : "");
}

// The card of the accepting side, or why it has none for us.
Result<Card> parseAnswer(std::span<const uint8_t> answer) {
  const Result<ControlMessage> refusal = parseControl(answer);
  const auto* why = refusal ? std::get_if<LaneLost>(&refusal.value()) : nullptr;
  if (why == nullptr) return parseCard(answer);
  return errorf(Status::remoteError, "the peer refuses the connection: %s", why->why.c_str());
}

}  // namespace

Connecting::Connecting(const Site& site, const Handle& handle, int trafficClass)
    : site_(site),
      handle_(handle),
      trafficClass_(trafficClass),
      control_(std::make_unique<ChannelControl>()) {}

// Says who we are, over the way that has just come to be.
Result<void> Connecting::introduce() {
  Handle back{};
  auto listener = site_.sockets->listen(back);
  if (!listener) return listener.error();
  listener_ = std::move(listener.value());
  slots_ = std::make_unique<SenderSlots>();
  CINCH_TRY(makeLanes(site_, kMostLanes, senderShape(site_), *slots_, wiring_));
  card_ = cardOf(wiring_, *slots_);
  const std::vector<uint8_t> card = encodeCard(card_);
  std::vector<uint8_t> hello(kHandleBytes + card.size());
  memcpy(hello.data(), back.data(), kHandleBytes);
  std::copy(card.begin(), card.end(), hello.begin() + kHandleBytes);
  return control_->say(hello);
}

Result<std::unique_ptr<Sender>> Connecting::step() {
  if (!control_->hasOut()) {
    auto out = site_.sockets->connect(handle_, trafficClass_);
    if (!out) return out.error();
    if (out.value() == nullptr) return std::unique_ptr<Sender>();
    control_->setOut(std::move(out.value()));
    CINCH_TRY(introduce());
  }
  if (!control_->hasIn()) {
    // A peer that dies before it has called back would be waited for without end.
    CINCH_TRY(control_->checkOut());
    auto in = listener_->accept();
    if (!in) return in.error();
    if (in.value() == nullptr) return std::unique_ptr<Sender>();
    control_->setIn(std::move(in.value()));
  }
  const auto heard = control_->hear();
  if (!heard) return heard.error();
  if (!heard.value()) return std::unique_ptr<Sender>();
  Result<Card> theirs = parseAnswer(*heard.value());
  if (!theirs) return theirs.error();
  CINCH_TRY(join(wiring_, card_, std::move(theirs.value()), trafficClass_));
  const std::array<uint8_t, 2> ready = {kReady, static_cast<uint8_t>(wiring_.lanes.size())};
  CINCH_TRY(control_->say(ready));
  sayConnected("to", wiring_);
  wiring_.control = std::move(control_);
  const bool splits = site_.ports.front()->settings().splits;
  return std::make_unique<Sender>(std::move(wiring_), std::move(slots_), splits);
}

Accepting::Accepting(const Site& site, std::unique_ptr<Listener> listener)
    : site_(site), listener_(std::move(listener)), control_(std::make_unique<ChannelControl>()) {}

// What is wrong with the card goes to the peer: it would wait for ours for ever.
Result<void> Accepting::hearHello(std::span<const uint8_t> hello) {
  if (hello.size() <= kHandleBytes) {
    return errorf(Status::remoteError, "the peer's greeting is too short");
  }
  memcpy(back_.data(), hello.data(), kHandleBytes);
  const Result<void> answered = answer(hello.subspan(kHandleBytes));
  if (answered) return {};
  refusal_ = answered.error();
  return control_->say(encodeControl(LaneLost{0, refusal_->message}));
}

// Makes this side ready for what the peer's card says, and says so.
Result<void> Accepting::answer(std::span<const uint8_t> card) {
  Result<Card> theirs = parseCard(card);
  if (!theirs) return theirs.error();
  slots_ = std::make_unique<ReceiverSlots>();
  const size_t mostLanes = theirs.value().ports.size();
  CINCH_TRY(makeLanes(site_, mostLanes, receiverShape(site_), *slots_, wiring_));
  CINCH_TRY(join(wiring_, cardOf(wiring_, *slots_), std::move(theirs.value()), -1));
  // Only now it is known what both ends will do, and over which lanes.
  return control_->say(encodeCard(cardOf(wiring_, *slots_)));
}

// The peer may have found that fewer lanes lead here.
Result<void> Accepting::takeReady(std::span<const uint8_t> ready) {
  const bool isReady =
      ready.size() == 2 && ready[0] == kReady && ready[1] >= 1 && ready[1] <= wiring_.lanes.size();
  if (!isReady) return errorf(Status::remoteError, "the peer did not say that it is ready");
  wiring_.lanes.resize(ready[1]);
  return {};
}

Result<std::unique_ptr<Receiver>> Accepting::step() {
  if (!control_->hasIn()) {
    auto in = listener_->accept();
    if (!in) return in.error();
    if (in.value() == nullptr) return std::unique_ptr<Receiver>();
    control_->setIn(std::move(in.value()));
  }
  if (hasAnswered_ && !control_->hasOut()) {
    auto out = site_.sockets->connect(back_, -1);
    if (!out) return refusal_ ? *refusal_ : out.error();
    if (out.value() == nullptr) return std::unique_ptr<Receiver>();
    control_->setOut(std::move(out.value()));
  }
  const auto heard = control_->hear();
  if (refusal_) return *refusal_;
  if (!heard) return heard.error();
  if (!heard.value()) return std::unique_ptr<Receiver>();
  if (!hasAnswered_) {
    CINCH_TRY(hearHello(*heard.value()));
    hasAnswered_ = true;
    return std::unique_ptr<Receiver>();
  }
  CINCH_TRY(takeReady(*heard.value()));
  sayConnected("from", wiring_);
  wiring_.control = std::move(control_);
  return std::make_unique<Receiver>(std::move(wiring_), std::move(slots_));
}

}  // namespace cinch::net::ib
