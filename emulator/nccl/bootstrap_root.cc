#include "emulator/nccl/bootstrap_root.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "emulator/nccl/debug.h"

namespace cinch::emulator {
namespace {

// How long a root whose first rank has not come is kept; a job may prepare for long before it
// communicates.
constexpr auto kUnusedLifetime = std::chrono::hours(1);
// How long latecomers are told of a failure.
constexpr auto kFailedLifetime = std::chrono::seconds(30);
constexpr auto kRootSendPatience = std::chrono::seconds(30);
constexpr int kTickMs = 1000;

std::string nameOf(const FrameHello& hello) {
  const std::string host(hello.host, strnlen(hello.host, sizeof hello.host));
  return "rank " + std::to_string(hello.rank) + " (" + host + ", process " +
         std::to_string(hello.pid) + ")";
}

}  // namespace

void BootstrapRoot::stop() {
  stopping_.store(true);
  wakeup_.notify();
}

void BootstrapRoot::serve() {
  while (!isDone()) {
    waitForEvents();
    admit();
    serveGuests();
    if (failure_.empty()) completeRound();
  }
}

bool BootstrapRoot::hasExpired() const {
  const auto quiet = Clock::now() - lastEvent_;
  if (!failure_.empty()) return quiet > kFailedLifetime;
  return guests_.empty() && quiet > kUnusedLifetime;
}

void BootstrapRoot::waitForEvents() {
  std::vector<pollfd> targets{{listener_.get(), POLLIN, 0}, {wakeup_.descriptor(), POLLIN, 0}};
  for (const Guest& guest : guests_) targets.push_back({guest.socket.get(), POLLIN, 0});
  if (poll(targets.data(), targets.size(), kTickMs) > 0) lastEvent_ = Clock::now();
}

void BootstrapRoot::admit() {
  Descriptor socket = acceptWaiting(listener_.get());
  while (socket.isOpen()) {
    guests_.emplace_back();
    guests_.back().socket = std::move(socket);
    socket = acceptWaiting(listener_.get());
  }
}

void BootstrapRoot::serveGuests() {
  for (auto it = guests_.begin(); it != guests_.end();) {
    it = serveGuest(*it) ? std::next(it) : guests_.erase(it);
  }
}

// False where the guest has left or must leave.
bool BootstrapRoot::serveGuest(Guest& guest) {
  const FrameReader::Outcome outcome = guest.reader.readFrom(guest.socket.get());
  while (std::optional<Frame> frame = guest.reader.take()) {
    if (!handle(guest, *frame)) return false;
  }
  if (outcome == FrameReader::Outcome::waiting) return true;
  if (guest.rank >= 0) fail(guest.name + " left while the communicator was being set up");
  return false;
}

bool BootstrapRoot::handle(Guest& guest, const Frame& frame) {
  if (guest.rank < 0) return introduce(guest, frame);
  if (frame.kind != FrameKind::data || guest.data) {
    fail(guest.name + " does not keep to the protocol");
    return false;
  }
  guest.data = frame.payload;
  return true;
}

bool BootstrapRoot::introduce(Guest& guest, const Frame& frame) {
  FrameHello hello;
  if (frame.kind != FrameKind::hello || frame.payload.size() != sizeof hello) return false;
  memcpy(&hello, frame.payload.data(), sizeof hello);
  if (hello.nonce != nonce_) return false;
  guest.name = nameOf(hello);
  guest.place = hello.pid == getpid() ? Place::here : Place::elsewhere;
  if (nRanks_ == 0) {
    nRanks_ = hello.nRanks;
    firstName_ = guest.name;
  }
  const Guest* same = guestOf(hello.rank);
  guest.rank = hello.rank;
  if (!failure_.empty()) {
    sendFailure(guest);
  } else if (hello.nRanks != nRanks_) {
    fail(guest.name + " expects " + std::to_string(hello.nRanks) + " ranks, but " + firstName_ +
         " expects " + std::to_string(nRanks_));
  } else if (same != nullptr) {
    fail("two processes claim to be the same rank: " + same->name + " and " + guest.name);
  }
  return true;
}

const BootstrapRoot::Guest* BootstrapRoot::guestOf(int rank) const {
  const auto found = std::find_if(guests_.begin(), guests_.end(),
                                  [&](const Guest& guest) { return guest.rank == rank; });
  return found == guests_.end() ? nullptr : &*found;
}

// Once all ranks have said theirs: gives everybody all of it.
void BootstrapRoot::completeRound() {
  Shares shares;
  for (int rank = 0; rank < std::max(nRanks_, 1); ++rank) {
    const Guest* guest = guestOf(rank);
    if (guest == nullptr || !guest->data) return;
    shares.push_back(*guest->data);
  }
  const std::vector<char> all = joinShares(shares);
  // A rank that has all it needs may end its process, and with the root's own ends the root.
  const bool told = tell(all, Place::elsewhere) && tell(all, Place::here);
  if (told) ++roundsDone_;
}

// False, and the communicator has failed, where a rank cannot be told.
bool BootstrapRoot::tell(const std::vector<char>& all, Place place) {
  for (Guest& guest : guests_) {
    if (guest.rank < 0 || guest.place != place) continue;
    guest.data.reset();
    const auto sent = writeFrame(guest.socket.get(), FrameKind::data, all.data(), all.size(),
                                 Clock::now() + kRootSendPatience);
    if (sent) continue;
    fail(guest.name + " cannot be reached: " + sent.error().message);
    return false;
  }
  return true;
}

void BootstrapRoot::fail(const std::string& reason) {
  if (!failure_.empty()) return;
  failure_ = reason;
  logInfo("Bootstrap : no communicator: %s", reason.c_str());
  for (const Guest& guest : guests_) sendFailure(guest);
}

void BootstrapRoot::sendFailure(const Guest& guest) {
  if (guest.rank < 0) return;
  // A rank that cannot be told sees the connection close instead.
  (void)writeFrame(guest.socket.get(), FrameKind::failure, failure_.data(), failure_.size(),
                   Clock::now() + kRootSendPatience);
}

}  // namespace cinch::emulator
