// libFuzzer target: either side of an opening over a socket, on which arbitrary bytes come in
// arbitrary pieces, or an honest peer's with some bits flipped. Nobody gets in with a proof that he
// cannot make, and no byte is taken from the socket beyond the handshake's.
//
// Input: one byte of choices, then pieces: how many bytes, and the bytes (or what is to be
// flipped).
#include "net_plugin/wire/opening.h"

#include <sys/socket.h>

#include <optional>
#include <vector>

#include "tests/net/fuzz/fuzz_support.h"
#include "tests/unit/net_plugin/wire/wire_support.h"

namespace cinch::net {
namespace {

constexpr size_t kMaxPiece = 128;
constexpr size_t kMaxSent = 4096;  // less than a socket holds

struct Choices {
  explicit Choices(uint8_t bits)
      : sharedKey((bits & 1) != 0 ? key(1) : Key()),
        isConnecting((bits & 2) != 0),
        isPeerHonest((bits & 4) != 0) {}

  Key sharedKey;
  bool isConnecting;  // the side that is tried
  bool isPeerHonest;
};

// Knows what an honest peer sends, as far as it can be known from what it has received.
class HonestPeer {
 public:
  HonestPeer(const Choices& choices, const Socket& socket) : socket_(socket) {
    if (choices.isConnecting) {
      listening_.emplace(kListening, 6, choices.sharedKey);
    } else {
      connecting_.emplace(sampleHello(), choices.sharedKey);
      say(connecting_->hello());
    }
  }
  // Byte number `at` of all that it sends; zero where it does not know it yet.
  uint8_t byteAt(size_t at) const { return at < words_.size() ? words_[at] : 0; }
  size_t size() const { return words_.size(); }

  void listen() {
    auto got = receiveSome(socket_, &heard_[nHeard_], heard_.size() - nHeard_);
    if (!got.ok() || got.value() == 0) return;
    nHeard_ += got.value();
    if (nHeard_ == heard_.size()) answer();
  }

 private:
  void say(std::span<const uint8_t> bytes) {
    words_.insert(words_.end(), bytes.begin(), bytes.end());
  }
  void answer() {
    if (listening_ && listening_->takeHello(heard_).ok()) say(listening_->welcome());
    if (connecting_ && connecting_->takeWelcome(heard_).ok()) say(connecting_->confirm());
  }

  const Socket& socket_;
  std::optional<ConnectingHandshake> connecting_;
  std::optional<ListeningHandshake> listening_;
  std::vector<uint8_t> words_;
  std::array<uint8_t, kHelloBytes> heard_{};
  static_assert(kHelloBytes == kWelcomeBytes);
  size_t nHeard_ = 0;
};

FlowOpening open(Socket socket, const Choices& choices) {
  if (choices.isConnecting) return {std::move(socket), sampleHello(), choices.sharedKey};
  return {std::move(socket), kListening, 6, choices.sharedKey};
}

// What the peer sends in all.
size_t wholeBytes(const Choices& choices) {
  if (choices.isConnecting) return kWelcomeBytes;
  return kHelloBytes + (choices.sharedKey.empty() ? 0 : kConfirmBytes);
}

class Run {
 public:
  Run(const Choices& choices, Socket near, Socket far)
      : choices_(choices),
        far_(std::move(far)),
        opening_(open(std::move(near), choices)),
        peer_(choices, far_) {}

  void run(FuzzBytes bytes) {
    step_ = opening_.advance();
    while (step_ == FlowOpening::Step::waiting && !bytes.isEmpty() && sent_.size() < kMaxSent) {
      peer_.listen();
      sendPiece(bytes.takeUpTo(1 + bytes.byte() % kMaxPiece));
      step_ = opening_.advance();
      require(opening_.advance() == step_, "a second call changes nothing");
    }
    check();
  }

 private:
  void sendPiece(std::span<const uint8_t> bytes) {
    std::vector<uint8_t> piece(bytes.begin(), bytes.end());
    for (size_t i = 0; choices_.isPeerHonest && i < piece.size(); ++i)
      piece[i] ^= peer_.byteAt(sent_.size() + i);
    if (piece.empty()) return;
    auto n = sendSome(far_, piece.data(), piece.size());
    require(n.ok() && n.value() == piece.size(), "the socket holds what is sent");
    sent_.insert(sent_.end(), piece.begin(), piece.end());
  }

  void check() {
    if (step_ == FlowOpening::Step::waiting) {
      require(sent_.size() < wholeBytes(choices_), "whoever has heard all decides");
      far_ = Socket();
      require(opening_.advance() == FlowOpening::Step::refused, "a leaver is noticed");
      require(!opening_.error().message.empty(), "a refusal says why");
      return;
    }
    const Socket near = opening_.takeSocket();
    uint8_t left[kMaxSent + kMaxPiece];
    const size_t nLeft = receiveSome(near, left, sizeof left).value();
    require(sent_.size() - nLeft <= wholeBytes(choices_), "no byte is taken beyond the handshake");
    if (step_ == FlowOpening::Step::done) checkDone(sent_.size() - nLeft);
  }

  void checkDone(size_t nTaken) {
    require(nTaken == wholeBytes(choices_), "all of the handshake is taken");
    require(!choices_.isConnecting || opening_.peer() == kListening, "the right process answers");
    // Without a key a listener takes whoever knows its identity.
    if (!choices_.isConnecting && choices_.sharedKey.empty()) return;
    require(choices_.isPeerHonest && peer_.size() >= nTaken, "nobody guesses a proof");
    for (size_t i = 0; i < nTaken; ++i)
      require(sent_[i] == peer_.byteAt(i), "a flipped bit is seen");
  }

  Choices choices_;
  Socket far_;
  FlowOpening opening_;
  HonestPeer peer_;
  FlowOpening::Step step_ = FlowOpening::Step::waiting;
  std::vector<uint8_t> sent_;
};

}  // namespace
}  // namespace cinch::net

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cinch::net;
  FuzzBytes bytes({data, size});
  const Choices choices(bytes.byte());
  int fds[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0,
          "there are sockets");
  Run(choices, cinch::Socket(fds[0]), cinch::Socket(fds[1])).run(bytes);
  return 0;
}
