#include "tests/net/chaos/strangers.h"

#include <sched.h>

#include <random>
#include <vector>

#include "common/network/socket.h"
#include "net_plugin/socket/handle.h"
#include "net_plugin/wire/handshake.h"
#include "tests/net/chaos/failure.h"

namespace cinch::chaos {
namespace {

using Random = std::mt19937;

std::vector<uint8_t> garbage(Random& random) {
  std::vector<uint8_t> bytes(1 + random() % 300);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// A Hello of somebody who was not invited: to another process.
std::vector<uint8_t> hello(Random& random) {
  net::Hello hello;
  hello.flows = 4;
  hello.link = random();
  hello.from = randomBytes16();
  hello.to = randomBytes16();
  const net::ConnectingHandshake handshake(hello, {});
  return {handshake.hello().begin(), handshake.hello().end()};
}

std::vector<uint8_t> opening(Random& random) {
  switch (random() % 4) {
    case 0:
      return garbage(random);
    case 1:
      return hello(random);
    case 2: {
      std::vector<uint8_t> half = hello(random);
      half.resize(1 + random() % (half.size() - 1));
      return half;
    }
    default:
      return {};
  }
}

void flood(const Endpoint& server, size_t nOpen, Progress& progress) {
  Random random(1);
  std::vector<Socket> open;
  while (true) {
    Result<Socket> socket = connectTo(server, deadlineIn(std::chrono::seconds(1)));
    if (socket) {
      ++progress.nDone;
      const std::vector<uint8_t> bytes = opening(random);
      (void)!sendSome(socket.value(), bytes.data(), bytes.size());
      open.push_back(std::move(socket.value()));
    }
    if (open.size() >= nOpen) open.erase(open.begin() + random() % open.size());
    sched_yield();
  }
}

}  // namespace

std::unique_ptr<Process> floodWithStrangers(const Handle& handle, int nOpen, Progress& progress) {
  const std::optional<net::Invitation> invitation = net::unpackInvitation(handle);
  CINCH_CHECK(invitation, "the handle says nothing");
  progress.reset();
  return std::make_unique<Process>("strangers", progress, [&](const Post&, Progress& counted) {
    flood(invitation->endpoints[0], nOpen, counted);
  });
}

}  // namespace cinch::chaos
