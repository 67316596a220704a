#include "net_plugin/socket/network.h"

#include <poll.h>

#include <algorithm>

#include "net_plugin/log.h"

namespace cinch::net {
namespace {

constexpr auto kOpeningPatience = std::chrono::seconds(10);
// Between attempts, growing with each that fails.
constexpr auto kFirstPause = std::chrono::milliseconds(20);
constexpr auto kLongestPause = std::chrono::seconds(1);
// Nobody answers at the address of a peer so often: its process is gone.
constexpr int kRefusalsOfTheDead = 4;
// A link without flows that the other side should open is given up after this.
constexpr auto kOrphanPatience = std::chrono::seconds(2);
// A link that nobody uses is kept for the next communicator.
constexpr auto kKeepUnused = std::chrono::seconds(5);
// The figures of so many links that are gone are kept.
constexpr size_t kFormerKept = 64;
// So many may be about to say who they are, and for so long.
constexpr ptrdiff_t kMaxStrangers = 512;
constexpr auto kStrangerPatience = std::chrono::seconds(3);

Clock::duration pauseAfter(int refusals) {
  const auto pause = kFirstPause * (1 << std::min(refusals, 8));
  return std::min<Clock::duration>(pause, kLongestPause);
}

}  // namespace

Result<std::unique_ptr<Network>> Network::open(const SocketSettings& settings,
                                               std::vector<Interface> interfaces) {
  std::unique_ptr<Network> network(new Network(settings));
  for (Interface& interface : interfaces) {
    Result<Socket> socket = listenOn(interface.address);
    if (!socket) return socket.error();
    const Endpoint endpoint = localEndpoint(socket.value());
    network->ports_.push_back({std::move(socket.value()), std::move(interface), endpoint});
  }
  return network;
}

std::string Network::name() const {
  std::string name;
  for (const Port& port : ports_) name += (name.empty() ? "" : "+") + port.interface.name;
  return name;
}

Invitation Network::invite() {
  Invitation invitation{identity_, randomBytes16(), {}};
  for (const Port& port : ports_) invitation.endpoints.push_back(port.endpoint);
  std::lock_guard lock(mutex_);
  listeners_[invitation.token];
  return invitation;
}

void Network::withdraw(const Token& token) {
  std::deque<WaitingChannel> waiting;
  {
    std::lock_guard lock(mutex_);
    const auto found = listeners_.find(token);
    if (found == listeners_.end()) return;
    waiting = std::move(found->second);
    listeners_.erase(found);
  }
  for (const WaitingChannel& it : waiting) it.link->close(it.channel);
}

WaitingChannel Network::accept(const Token& token) {
  std::lock_guard lock(mutex_);
  const auto found = listeners_.find(token);
  if (found == listeners_.end() || found->second.empty()) return {};
  WaitingChannel first = std::move(found->second.front());
  found->second.pop_front();
  return first;
}

bool Network::take(const Token& token, const std::shared_ptr<Link>& link,
                   const std::shared_ptr<ReceiveChannel>& channel) {
  std::lock_guard lock(mutex_);
  const auto found = listeners_.find(token);
  if (found == listeners_.end() || link == nullptr) return false;
  found->second.push_back({link, channel});
  return true;
}

// Requires mutex_.
std::shared_ptr<Network::Entry> Network::addEntry(const Identity& peer, std::string name,
                                                  int nFlows) {
  auto entry = std::make_shared<Entry>();
  entry->peer = peer;
  const std::weak_ptr<Entry> self = entry;
  entry->link = std::make_shared<Link>(
      settings_, std::move(name), nFlows,
      [this, self](const Token& token, const std::shared_ptr<ReceiveChannel>& channel) {
        const std::shared_ptr<Entry> owner = self.lock();
        return owner != nullptr && take(token, owner->link, channel);
      });
  entry->flowsSeen = entry->used = Clock::now();
  entries_.push_back(entry);
  return entry;
}

// Requires mutex_.
std::shared_ptr<Link> Network::linkTo(const Invitation& invitation) {
  for (const std::shared_ptr<Entry>& entry : entries_) {
    if (entry->peer != invitation.process || entry->link->hasFailed()) continue;
    entry->used = Clock::now();
    return entry->link;
  }
  const std::shared_ptr<Entry> entry =
      addEntry(invitation.process, invitation.endpoints.front().text(), settings_.nFlows);
  entry->isOurs = true;
  entry->number = nextLink_++;
  entry->endpoints = invitation.endpoints;
  return entry->link;
}

Connecting Network::connect(const Invitation& invitation) {
  std::lock_guard lock(mutex_);  // over both, or the link might be dropped in between as unused
  const std::shared_ptr<Link> link = linkTo(invitation);
  return {link, link->openChannel(invitation.token)};
}

std::vector<std::shared_ptr<Link>> Network::links() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Link>> all;
  for (const std::shared_ptr<Entry>& entry : entries_) all.push_back(entry->link);
  return all;
}

NetworkFigures Network::figures() {
  NetworkFigures figures;
  figures.device = name();
  std::vector<std::shared_ptr<Link>> present;
  {
    std::lock_guard lock(mutex_);
    figures.strangers = strangers_;
    figures.failedAccepts = failedAccepts_;
    figures.forgottenPeers = forgotten_;
    figures.peers.assign(former_.begin(), former_.end());
    for (const std::shared_ptr<Entry>& entry : entries_) present.push_back(entry->link);
  }
  for (const std::shared_ptr<Link>& link : present) figures.peers.push_back(link->figures());
  return figures;
}

void Network::tick() {
  std::unique_lock busy(tickMutex_, std::try_to_lock);
  if (!busy) return;
  const Clock::time_point now = Clock::now();
  advanceAttempts(now);
  acceptStrangers(now);
  std::vector<std::shared_ptr<Entry>> entries;
  {
    std::lock_guard lock(mutex_);
    entries = entries_;
  }
  for (const std::shared_ptr<Entry>& entry : entries) {
    openMissing(*entry, entry, now);
    entry->link->look(now);
  }
  advanceAttempts(now);
  dropUnused(now);
}

// Those that there is no room for wait in the kernel.
bool Network::mayAccept(Clock::time_point now) const {
  const auto strangers = std::count_if(attempts_.begin(), attempts_.end(),
                                       [](const Attempt& it) { return it.entry == nullptr; });
  return now >= nextAccept_.load() && strangers < kMaxStrangers;
}

void Network::acceptStrangers(Clock::time_point now) {
  for (const Port& port : ports_) {
    while (mayAccept(now)) {
      Result<std::optional<Accepted>> accepted = acceptFrom(port.socket);
      if (!accepted) {
        nextAccept_ = now + kLongestPause;
        acceptFailed(accepted.error());
      }
      if (!accepted || !accepted.value()) break;
      Attempt attempt;
      attempt.server = accepted.value()->from;
      attempt.opening.emplace(std::move(accepted.value()->socket), identity_, uint16_t{0},
                              settings_.key);
      attempt.deadline = now + kStrangerPatience;
      attempts_.push_back(std::move(attempt));
    }
  }
}

void Network::acceptFailed(const Error& why) {
  if (acceptLines_.admits()) CINCH_NET_WARN("%s", why.message.c_str());
  std::lock_guard lock(mutex_);
  ++failedAccepts_;
}

// Begins to open what is missing of a link that this side opens; gives up what is lost.
void Network::openMissing(Entry& entry, const std::shared_ptr<Entry>& owner,
                          Clock::time_point now) {
  if (entry.link->hasFailed()) return;
  if (entry.link->hasFlows()) {
    entry.flowsSeen = now;
    entry.rounds = entry.refusals = 0;
  }
  const bool isOrphan =
      now - entry.flowsSeen > (entry.isOurs ? settings_.timeout : Clock::duration(kOrphanPatience));
  const bool isDead = entry.refusals >= kRefusalsOfTheDead && !entry.link->hasFlows();
  if (isOrphan || isDead) {
    const std::string cause = entry.lastError.empty() ? "" : ": " + entry.lastError;
    return entry.link->fail(errorf(Status::remoteError,
                                   "lost %s: all flows are gone%s. Is its process still there?",
                                   entry.link->peer().c_str(), cause.c_str()));
  }
  if (!entry.isOurs || now < entry.nextAttempt) return;
  for (const int index : entry.link->missingFlows()) {
    const bool tried = std::any_of(attempts_.begin(), attempts_.end(), [&](const Attempt& it) {
      return it.entry == owner && it.index == index;
    });
    if (tried) continue;
    Attempt attempt;
    attempt.entry = owner;
    attempt.index = index;
    attempt.server = entry.endpoints[index % entry.endpoints.size()];
    attempt.deadline = now + kOpeningPatience;
    // With one interface the kernel's routes know better.
    const IpAddress from =
        ports_.size() > 1 ? ports_[index % ports_.size()].interface.address : IpAddress{};
    Result<Socket> socket = beginConnect(attempt.server, from);
    if (!socket) {
      attemptFailed(attempt, socket.error());
      continue;
    }
    attempt.socket = std::move(socket.value());
    attempts_.push_back(std::move(attempt));
  }
}

void Network::attemptFailed(Attempt& attempt, const Error& why) {
  if (attempt.entry == nullptr) {
    std::lock_guard lock(mutex_);
    ++strangers_;
    return;
  }
  Entry& entry = *attempt.entry;
  entry.lastError = why.message;
  endRound(entry, why.status == Status::remoteError);
  entry.link->openingFailed(attempt.index, why.message);
}

// All flows that are tried at once are one round; it ends with the first that is there or fails.
void Network::endRound(Entry& entry, bool wasRefused) {
  const Clock::time_point now = Clock::now();
  if (now < entry.nextAttempt) return;
  entry.nextAttempt = now + pauseAfter(entry.rounds++);
  entry.refusals = wasRefused ? entry.refusals + 1 : 0;
}

// TCP stands: the handshake begins. False where it does not.
bool Network::startOpening(Attempt& attempt) {
  const Result<bool> connected = connectOutcome(attempt.socket, attempt.server);
  if (!connected) attemptFailed(attempt, connected.error());
  if (!connected) return false;
  if (!connected.value()) return true;
  const Entry& entry = *attempt.entry;
  Hello hello;
  hello.flow = static_cast<uint8_t>(attempt.index);
  hello.flows = static_cast<uint8_t>(entry.link->nFlows());
  hello.link = entry.number;
  hello.from = identity_;
  hello.to = entry.peer;
  attempt.opening.emplace(std::move(attempt.socket), hello, settings_.key);
  return true;
}

// False where the attempt has ended, one way or the other.
bool Network::advance(Attempt& attempt, Clock::time_point now) {
  if (now > attempt.deadline) {
    attemptFailed(attempt, errorf(Status::systemError, "no answer in time"));
    return false;
  }
  if (!attempt.opening && !startOpening(attempt)) return false;
  if (!attempt.opening) return true;
  switch (attempt.opening->advance()) {
    case FlowOpening::Step::waiting:
      return true;
    case FlowOpening::Step::refused:
      if (attempt.opening->error().status == Status::invalidUsage && refusalLines_.admits()) {
        CINCH_NET_WARN("%s: %s", attempt.server.text().c_str(),
                       attempt.opening->error().message.c_str());
      }
      attemptFailed(attempt,
                    errorf(Status::systemError, "%s", attempt.opening->error().message.c_str()));
      return false;
    case FlowOpening::Step::done:
      attempt.entry != nullptr ? attachOwn(attempt) : attachStranger(attempt);
      return false;
  }
  return false;
}

void Network::attachOwn(Attempt& attempt) {
  endRound(*attempt.entry, false);
  attempt.entry->link->attach(attempt.index, attempt.opening->takeSocket());
}

// A peer that we did not know, or one more flow of it.
void Network::attachStranger(Attempt& attempt) {
  const Hello& hello = attempt.opening->hello();
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    for (const std::shared_ptr<Entry>& it : entries_) {
      if (!it->isOurs && it->peer == hello.from && it->number == hello.link) entry = it;
    }
    if (entry == nullptr) {
      entry = addEntry(hello.from, attempt.server.text(), hello.flows);
      entry->number = hello.link;
    }
  }
  if (entry->link->nFlows() != hello.flows || entry->link->hasFailed()) return;
  entry->link->attach(hello.flow, attempt.opening->takeSocket());
}

void Network::advanceAttempts(Clock::time_point now) {
  std::erase_if(attempts_, [&](Attempt& attempt) { return !advance(attempt, now); });
}

bool Network::isUnused(Entry& entry, Clock::time_point now) {
  if (entry.link->hasChannels()) {
    entry.used = now;
    return false;
  }
  if (entry.link->hasFailed()) return true;
  // The side that connects decides; the other follows when the flows are gone, not where they have
  // yet to speak.
  if (!entry.isOurs) {
    const bool hasNone = entry.link->missingFlows().size() == size_t(entry.link->nFlows());
    return hasNone && now - entry.used > kFirstPause;
  }
  return now - entry.used > kKeepUnused;
}

void Network::dropUnused(Clock::time_point now) {
  std::vector<std::shared_ptr<Entry>> dropped;  // their sockets close without the lock
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const std::shared_ptr<Entry>& entry) {
    const bool unused = isUnused(*entry, now);
    if (unused) dropped.push_back(entry);
    if (unused) keepFigures(*entry->link);
    return unused;
  });
}

// Requires mutex_.
void Network::keepFigures(Link& link) {
  former_.push_back(link.figures());
  former_.back().isGone = true;
  if (former_.size() <= kFormerKept) return;
  former_.pop_front();
  ++forgotten_;
}

void Network::addPollTargets(std::vector<std::pair<int, short>>* targets) {
  if (Clock::now() < nextAccept_.load()) return;
  for (const Port& port : ports_) targets->push_back({port.socket.fd(), POLLIN});
}

}  // namespace cinch::net
