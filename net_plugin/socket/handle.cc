#include "net_plugin/socket/handle.h"

#include <cstring>
#include <string>

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
  uint8_t transport;
  uint8_t zero[6];
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

bool isKnown(const PackedHandle& packed) {
  return packed.magic == kMagic && packed.nEndpoints >= 1 && packed.nEndpoints <= kMaxEndpoints &&
         packed.transport <= static_cast<uint8_t>(Transport::verbs);
}

const char* nameOf(Transport transport) {
  return transport == Transport::verbs ? "InfiniBand verbs" : "sockets";
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
  packed.transport = static_cast<uint8_t>(invitation.transport);
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
  if (!isKnown(packed)) return std::nullopt;
  Invitation invitation{packed.process, packed.token, {}, static_cast<Transport>(packed.transport)};
  for (int i = 0; i < packed.nEndpoints; ++i) {
    invitation.endpoints.push_back(unpack(packed.endpoints[i]));
    if (!isUsable(invitation.endpoints.back())) return std::nullopt;
  }
  return invitation;
}

Result<void> checkTransport(const Invitation& invitation, Transport ours) {
  if (invitation.transport == ours) return {};
  const std::string peer =
      invitation.endpoints.empty() ? "" : " at " + invitation.endpoints[0].address.text();
  return errorf(Status::invalidUsage,
                "the peer%s listens over %s, this process sends over %s: set CINCH_NET=socket or "
                "CINCH_NET=verbs alike on all ranks",
                peer.c_str(), nameOf(invitation.transport), nameOf(ours));
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
