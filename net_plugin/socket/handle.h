// What the listening process writes into NCCL's handle, and what the connecting one finds there.
#pragma once

#include <optional>
#include <vector>

#include "common/network/ip_address.h"
#include "net_plugin/net.h"
#include "net_plugin/socket/channel.h"
#include "net_plugin/wire/handshake.h"

namespace cinch::net {

// What a listener takes messages over.
enum class Transport : uint8_t { sockets, verbs };

// Where a listener is: bytes that travel between hosts.
struct Invitation {
  Identity process{};               // who listens
  Token token{};                    // which of its listeners
  std::vector<Endpoint> endpoints;  // 1 to kMaxEndpoints, one for each interface
  Transport transport = Transport::sockets;

  bool operator==(const Invitation&) const = default;
};

inline constexpr size_t kMaxEndpoints = 4;

// Fills the handle; the place that the connecting side keeps its state in is zero.
void packInvitation(const Invitation& invitation, Handle& handle);
// Nothing where the bytes are not such a handle.
std::optional<Invitation> unpackInvitation(const Handle& handle);
// An error that says what to do where the listener's transport is not the one we would connect by.
Result<void> checkTransport(const Invitation& invitation, Transport ours);

// The connecting side's own word in its copy of the handle.
void* handleState(const Handle& handle);
void setHandleState(Handle& handle, void* state);

}  // namespace cinch::net
