#include "net_plugin/socket/handle.h"

#include <cstring>

namespace cinch::net {
namespace {

constexpr uint32_t kMagic = 0x31484e43;  // "CNH1"

struct PackedEndpoint {
  uint8_t family;
  uint8_t port[2];  // big-endian
  uint8_t address[16];
};

struct PackedHandle {
  uint32_t magic;
  Identity process;
  Token token;
  uint8_t nEndpoints;
  PackedEndpoint endpoints[kMaxEndpoints];
  uint8_t zero[7];
  void* state;
};
static_assert(sizeof(PackedHandle) == kHandleBytes);

Endpoint unpack(const PackedEndpoint& from) {
  Endpoint endpoint;
  endpoint.address.family = static_cast<Family>(from.family);
  memcpy(endpoint.address.bytes.data(), from.address, sizeof from.address);
  endpoint.port = static_cast<uint16_t>(from.port[0] << 8 | from.port[1]);
  return endpoint;
}

bool isUsable(const Endpoint& endpoint) {
  const Family family = endpoint.address.family;
  return (family == Family::ipv4 || family == Family::ipv6) && endpoint.port != 0;
}

}  // namespace

void packInvitation(const Invitation& invitation, Handle& handle) {
  PackedHandle packed{};
  packed.magic = kMagic;
  packed.process = invitation.process;
  packed.token = invitation.token;
  for (const Endpoint& endpoint : invitation.endpoints) {
    if (packed.nEndpoints == kMaxEndpoints) break;
    PackedEndpoint& to = packed.endpoints[packed.nEndpoints++];
    to.family = static_cast<uint8_t>(endpoint.address.family);
    to.port[0] = static_cast<uint8_t>(endpoint.port >> 8);
    to.port[1] = static_cast<uint8_t>(endpoint.port);
    memcpy(to.address, endpoint.address.bytes.data(), sizeof to.address);
  }
  memcpy(handle.data(), &packed, sizeof packed);
}

std::optional<Invitation> unpackInvitation(const Handle& handle) {
  PackedHandle packed;
  memcpy(&packed, handle.data(), sizeof packed);
  const bool known =
      packed.magic == kMagic && packed.nEndpoints >= 1 && packed.nEndpoints <= kMaxEndpoints;
  if (!known) return std::nullopt;
  Invitation invitation{packed.process, packed.token, {}};
  for (int i = 0; i < packed.nEndpoints; ++i) {
    invitation.endpoints.push_back(unpack(packed.endpoints[i]));
    if (!isUsable(invitation.endpoints.back())) return std::nullopt;
  }
  return invitation;
}

void* handleState(const Handle& handle) {
  PackedHandle packed;
  memcpy(&packed, handle.data(), sizeof packed);
  return packed.state;
}

void setHandleState(Handle& handle, void* state) {
  memcpy(handle.data() + offsetof(PackedHandle, state), &state, sizeof state);
}

}  // namespace cinch::net
