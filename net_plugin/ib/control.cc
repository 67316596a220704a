#include "net_plugin/ib/control.h"

#include <algorithm>

#include "common/byte_order.h"

namespace cinch::net::ib {
namespace {

constexpr uint8_t kLaneLost = 1;
constexpr uint8_t kStanding = 2;
constexpr uint8_t kConfirmed = 3;
constexpr size_t kHeadBytes = 2;
constexpr size_t kMaxReasonBytes = 400;
constexpr size_t kStandingBytes = kHeadBytes + 8 + kPlaces + kPlaces / 8;
constexpr size_t kConfirmedBytes = kHeadBytes + kPlaces;
static_assert(kStandingBytes <= kMaxControlBytes && kConfirmedBytes <= kMaxControlBytes);

std::vector<uint8_t> encode(const LaneLost& lost) {
  const size_t length = std::min(lost.why.size(), kMaxReasonBytes);
  std::vector<uint8_t> bytes(kHeadBytes + length);
  bytes[0] = kLaneLost;
  bytes[1] = lost.lane;
  std::copy_n(lost.why.begin(), length, bytes.begin() + kHeadBytes);
  return bytes;
}

std::vector<uint8_t> encode(const Standing& standing) {
  std::vector<uint8_t> bytes(kStandingBytes);
  bytes[0] = kStanding;
  bytes[1] = standing.isClosing ? 1 : 0;
  storeLittle(standing.nextGroup, &bytes[kHeadBytes]);
  const auto at = bytes.begin() + kHeadBytes + 8;
  std::copy(standing.parts.begin(), standing.parts.end(), at);
  std::copy(standing.complete.begin(), standing.complete.end(), at + kPlaces);
  return bytes;
}

std::vector<uint8_t> encode(const Confirmed& confirmed) {
  std::vector<uint8_t> bytes(kConfirmedBytes);
  bytes[0] = kConfirmed;
  std::copy(confirmed.parts.begin(), confirmed.parts.end(), bytes.begin() + kHeadBytes);
  return bytes;
}

// Text of a peer goes into our log: nothing but printable characters.
std::string printable(std::span<const uint8_t> bytes) {
  std::string text(bytes.begin(), bytes.end());
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

Standing parseStanding(std::span<const uint8_t> bytes) {
  Standing standing;
  standing.isClosing = bytes[1] != 0;
  standing.nextGroup = loadLittle<uint64_t>(&bytes[kHeadBytes]);
  const auto at = bytes.begin() + kHeadBytes + 8;
  std::copy_n(at, kPlaces, standing.parts.begin());
  std::copy_n(at + kPlaces, standing.complete.size(), standing.complete.begin());
  return standing;
}

Confirmed parseConfirmed(std::span<const uint8_t> bytes) {
  Confirmed confirmed;
  std::copy_n(bytes.begin() + kHeadBytes, kPlaces, confirmed.parts.begin());
  return confirmed;
}

}  // namespace

std::vector<uint8_t> encodeControl(const ControlMessage& message) {
  return std::visit([](const auto& it) { return encode(it); }, message);
}

Result<ControlMessage> parseControl(std::span<const uint8_t> bytes) {
  const uint8_t kind = bytes.size() < kHeadBytes ? 0 : bytes[0];
  const bool isLost = kind == kLaneLost && bytes.size() <= kHeadBytes + kMaxReasonBytes;
  if (isLost) return ControlMessage(LaneLost{bytes[1], printable(bytes.subspan(kHeadBytes))});
  if (kind == kStanding && bytes.size() == kStandingBytes && bytes[1] <= 1) {
    return ControlMessage(parseStanding(bytes));
  }
  if (kind == kConfirmed && bytes.size() == kConfirmedBytes && bytes[1] == 0) {
    return ControlMessage(parseConfirmed(bytes));
  }
  return errorf(Status::remoteError, "the peer said something that is no message of this protocol");
}

}  // namespace cinch::net::ib
