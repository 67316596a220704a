#include "net_plugin/wire/opening.h"

#include <utility>

namespace cinch::net {
namespace {

constexpr int kStages = 3;  // of either side
static_assert(kWelcomeBytes <= kHelloBytes && kConfirmBytes <= kHelloBytes);

Error lostConnection(const Error& cause) {
  return errorf(Status::remoteError,
                "%s before the flow was open: if the other side has refused it, its log says why",
                cause.message.c_str());
}

}  // namespace

FlowOpening::FlowOpening(Socket socket, const Hello& hello, const Key& key)
    : socket_(std::move(socket)),
      side_(std::in_place_type<ConnectingHandshake>, hello, key),
      hello_(hello),
      peer_(hello.to),
      features_(hello.features) {}

FlowOpening::FlowOpening(Socket socket, const Identity& self, uint16_t features, const Key& key)
    : socket_(std::move(socket)),
      side_(std::in_place_type<ListeningHandshake>, self, features, key),
      features_(features) {}

FlowOpening::Step FlowOpening::advance() {
  while (!error_ && stage_ < kStages) {
    auto isOver = std::visit([this](auto& side) { return runStage(side); }, side_);
    if (!isOver.ok()) {
      error_ = isOver.error();
    } else if (!isOver.value()) {
      return Step::waiting;
    } else {
      ++stage_;
      moved_ = 0;
    }
  }
  return error_ ? Step::refused : Step::done;
}

Result<bool> FlowOpening::runStage(ConnectingHandshake& side) {
  switch (stage_) {
    case 0:
      return send(side.hello());
    case 1:
      return takeWelcome(side);
    default:
      return send(side.confirm());
  }
}

Result<bool> FlowOpening::runStage(ListeningHandshake& side) {
  switch (stage_) {
    case 0:
      return takeHello(side);
    case 1:
      return send(side.welcome());
    default:
      return side.confirmBytes() == 0 ? true : takeConfirm(side);
  }
}

Result<bool> FlowOpening::takeHello(ListeningHandshake& side) {
  auto isThere = receiveFromStranger(kHelloBytes);
  if (!isThere.ok() || !isThere.value()) return isThere;
  auto hello = side.takeHello(std::span(received_).first<kHelloBytes>());
  CINCH_TRY(hello);
  hello_ = hello.value();
  peer_ = hello_.from;
  features_ &= hello_.features;
  return true;
}

Result<bool> FlowOpening::takeWelcome(ConnectingHandshake& side) {
  auto isThere = receiveFromStranger(kWelcomeBytes);
  if (!isThere.ok() || !isThere.value()) return isThere;
  auto welcome = side.takeWelcome(std::span(received_).first<kWelcomeBytes>());
  CINCH_TRY(welcome);
  features_ &= welcome.value().features;
  return true;
}

Result<bool> FlowOpening::takeConfirm(ListeningHandshake& side) {
  auto isThere = receive(kConfirmBytes);
  if (!isThere.ok() || !isThere.value()) return isThere;
  CINCH_TRY(side.takeConfirm(std::span(received_).first<kConfirmBytes>()));
  return true;
}

Result<bool> FlowOpening::send(std::span<const uint8_t> bytes) {
  wantsToWrite_ = true;
  while (moved_ < bytes.size()) {
    auto sent = sendSome(socket_, &bytes[moved_], bytes.size() - moved_);
    if (!sent.ok()) return lostConnection(sent.error());
    if (sent.value() == 0) return false;
    moved_ += sent.value();
  }
  return true;
}

Result<bool> FlowOpening::receive(size_t nBytes) {
  wantsToWrite_ = false;
  while (moved_ < nBytes) {
    auto got = receiveSome(socket_, &received_[moved_], nBytes - moved_);
    if (!got.ok()) return lostConnection(got.error());
    if (got.value() == 0) return false;
    moved_ += got.value();
  }
  return true;
}

// Another program may never send as many bytes as a Cinch peer does.
Result<bool> FlowOpening::receiveFromStranger(size_t nBytes) {
  auto isThere = receive(nBytes);
  if (isThere.ok()) CINCH_TRY(checkFirstBytes(std::span(received_).first(moved_)));
  return isThere;
}

}  // namespace cinch::net
