// The opening of a flow, step by step on a socket that does not block.
//
// Bounded: takes from the socket the bytes of its handshake and none behind them, holds at most 80
// of what a stranger sends, and refuses at the first byte that no Cinch peer sends. How long an
// opening may take is the caller's to say: destroying one closes its connection.
#pragma once

#include <array>
#include <optional>
#include <variant>

#include "common/network/socket.h"
#include "net_plugin/wire/handshake.h"

namespace cinch::net {

// One thread at a time uses an object.
class FlowOpening {
 public:
  enum class Step { waiting, done, refused };

  // The connecting side, on a connection that stands.
  FlowOpening(Socket socket, const Hello& hello, const Key& key);
  // The listening side, on what a listener has accepted.
  FlowOpening(Socket socket, const Identity& self, uint16_t features, const Key& key);

  // Moves what can be moved now. While it waits, the socket has to become writable (wantsToWrite())
  // or readable before another call helps.
  Step advance();
  bool wantsToWrite() const { return wantsToWrite_; }
  const Socket& socket() const { return socket_; }

  // Where refused: why. The status tells strangers from peers that are set up otherwise, as in
  // handshake.h.
  const Error& error() const { return *error_; }

  // Where done: what was said, and the connection, which carries records from here on.
  const Hello& hello() const { return hello_; }  // of the connecting side
  const Identity& peer() const { return peer_; }
  uint16_t features() const { return features_; }  // that both sides have
  Socket takeSocket() { return std::move(socket_); }

 private:
  // A stage moves bytes in one direction and, where they came in, judges them. True: it is over.
  Result<bool> runStage(ConnectingHandshake& side);
  Result<bool> runStage(ListeningHandshake& side);
  Result<bool> takeHello(ListeningHandshake& side);
  Result<bool> takeWelcome(ConnectingHandshake& side);
  Result<bool> takeConfirm(ListeningHandshake& side);

  Result<bool> send(std::span<const uint8_t> bytes);
  Result<bool> receive(size_t nBytes);
  Result<bool> receiveFromStranger(size_t nBytes);

  Socket socket_;
  std::variant<ConnectingHandshake, ListeningHandshake> side_;
  int stage_ = 0;
  size_t moved_ = 0;  // bytes of this stage
  std::array<uint8_t, kHelloBytes> received_{};
  bool wantsToWrite_ = false;
  std::optional<Error> error_;

  Hello hello_;
  Identity peer_{};
  uint16_t features_ = 0;
};

}  // namespace cinch::net
