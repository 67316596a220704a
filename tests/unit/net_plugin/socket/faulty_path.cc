#include "tests/unit/net_plugin/socket/faulty_path.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace cinch::net {
namespace {

constexpr size_t kMaxHeld = 256 << 10;
constexpr int kMaxRest = 60;  // visits

}  // namespace

FaultyPath::FaultyPath(const Endpoint& target, const Faults& faults, uint32_t seed)
    : target_(target), faults_(faults), random_(seed) {
  Result<Socket> listener = listenOn(target.address);
  EXPECT_TRUE(listener.ok());
  listener_ = std::move(listener.value());
  endpoint_ = localEndpoint(listener_);
}

bool FaultyPath::happens(double chance) {
  const bool yes = std::uniform_real_distribution<>()(random_) < chance;
  nFaults_ += yes;
  return yes;
}

void FaultyPath::step() {
  auto accepted = acceptFrom(listener_);
  while (accepted.ok() && accepted.value()) {
    Result<Socket> server = beginConnect(target_, {});
    if (server) {
      Connection& made = connections_.emplace_back();
      made.client = std::move(accepted.value()->socket);
      made.server = std::move(server.value());
    }
    accepted = acceptFrom(listener_);
  }
  for (Connection& connection : connections_) {
    if (happens(faults_.reset)) breakDown(connection);
    move(connection, connection.client, connection.server, connection.directions[0]);
    move(connection, connection.server, connection.client, connection.directions[1]);
  }
  connections_.remove_if([](const Connection& connection) { return connection.isBroken; });
}

void FaultyPath::breakDown(Connection& connection) {
  const linger hard{1, 0};
  for (const Socket* socket : {&connection.client, &connection.server}) {
    setsockopt(socket->fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  }
  connection.isBroken = true;
}

void FaultyPath::spoil(std::vector<char>& bytes) {
  if (bytes.empty() || !happens(faults_.flip)) return;
  bytes[random_() % bytes.size()] ^= static_cast<char>(1 << random_() % 8);
}

void FaultyPath::move(Connection& connection, const Socket& from, const Socket& to,
                      Direction& direction) {
  if (connection.isBroken || direction.isSilent) return;
  if (direction.rests > 0) {
    --direction.rests;
    return;
  }
  if (happens(faults_.silence)) direction.isSilent = true;
  if (happens(faults_.pause)) direction.rests = static_cast<int>(random_() % kMaxRest);
  if (direction.held.size() < kMaxHeld) {
    std::vector<char> piece(1 + random_() % faults_.maxPiece);
    const ssize_t got = recv(from.fd(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != ENOTCONN)) {
      connection.isBroken = direction.held.empty();
    } else if (got > 0) {
      piece.resize(got);
      spoil(piece);
      direction.held.insert(direction.held.end(), piece.begin(), piece.end());
    }
  }
  if (direction.held.empty()) return;
  const ssize_t sent =
      send(to.fd(), direction.held.data(), direction.held.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) direction.held.erase(direction.held.begin(), direction.held.begin() + sent);
  if (sent < 0 && errno != EAGAIN && errno != ENOTCONN) connection.isBroken = true;
}

}  // namespace cinch::net
