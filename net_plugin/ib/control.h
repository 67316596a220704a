// What the two ends of a connection tell each other beside the data: when a lane is lost, and which
// parts are there. Over a way of its own, which does not depend on the devices.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/result.h"
#include "net_plugin/ib/slots.h"

namespace cinch::net::ib {

// A way for short messages, in order, both ways. Never waits.
class Control {
 public:
  virtual ~Control() = default;
  // To kMaxControlBytes. That the way is lost is hear()'s to say, after what the peer has said.
  virtual Result<void> say(std::span<const uint8_t> message) = 0;
  // The next message of the peer, nothing while there is none. An error says that none comes any
  // more: the peer has closed the connection, or is gone.
  virtual Result<std::optional<std::vector<uint8_t>>> hear() = 0;
};

inline constexpr size_t kMaxControlBytes = 1024;

// This side writes nothing over the lane any more, and nothing that the peer writes there arrives.
struct LaneLost {
  uint8_t lane = 0;
  std::string why;

  bool operator==(const LaneLost&) const = default;
};

// What the receiving side has, when it goes on to another lane or closes.
struct Standing {
  bool isClosing = false;
  uint64_t nextGroup = 0;                       // posted next; the kMaxRequests before it count
  std::array<uint8_t, kPlaces> parts{};         // a bit for each part that is there
  std::array<uint8_t, kPlaces / 8> complete{};  // a bit for each place whose message is whole

  bool isComplete(size_t place) const { return (complete[place / 8] >> place % 8 & 1) != 0; }
  void setComplete(size_t place) { complete[place / 8] |= static_cast<uint8_t>(1 << place % 8); }
  bool operator==(const Standing&) const = default;
};

// What the sending side knows to be there of what Standing lacks: the data arrived, and the device
// of the receiving side lost the completion.
struct Confirmed {
  std::array<uint8_t, kPlaces> parts{};  // a bit for each

  bool operator==(const Confirmed&) const = default;
};

using ControlMessage = std::variant<LaneLost, Standing, Confirmed>;

// Little-endian. Byte 0 is the kind: 1 LaneLost, byte 1 the lane, then the reason's text; 2
// Standing, byte 1 whether it closes, 8 bytes of group, the parts, the complete ones; 3 Confirmed,
// byte 1 zero, the parts.
std::vector<uint8_t> encodeControl(const ControlMessage& message);
// The one reader of what a peer says here.
Result<ControlMessage> parseControl(std::span<const uint8_t> bytes);

}  // namespace cinch::net::ib
