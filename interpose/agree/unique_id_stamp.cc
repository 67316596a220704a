#include "interpose/agree/unique_id_stamp.h"

#include <cstring>

#include "common/byte_order.h"
#include "common/hash.h"
#include "interpose/agree/agreement.h"

namespace cinch {
namespace {

constexpr uint8_t kMagic[8] = {'C', 'I', 'N', 'C', 'H', 'i', 'd', 1};
constexpr size_t kMagicAt = 80;
constexpr size_t kFamilyAt = 88;
constexpr size_t kPortAt = 90;
constexpr size_t kScopeAt = 92;
constexpr size_t kAddressAt = 96;
constexpr size_t kNonceAt = 112;
constexpr size_t kChecksumAt = 120;
static_assert(kChecksumAt + sizeof(uint64_t) == kUniqueIdBytes);

}  // namespace

void writeStamp(const UniqueIdStamp& stamp, uint8_t* id) {
  memset(id + kMagicAt, 0, kUniqueIdBytes - kMagicAt);
  memcpy(id + kMagicAt, kMagic, sizeof kMagic);
  id[kFamilyAt] = static_cast<uint8_t>(stamp.server.address.family);
  storeLittle(stamp.server.port, id + kPortAt);
  storeLittle(stamp.server.address.scope, id + kScopeAt);
  memcpy(id + kAddressAt, stamp.server.address.bytes.data(), 16);
  storeLittle(stamp.nonce, id + kNonceAt);
  storeLittle(hashBytes(id, kChecksumAt), id + kChecksumAt);
}

std::optional<UniqueIdStamp> readStamp(const uint8_t* id) {
  if (memcmp(id + kMagicAt, kMagic, sizeof kMagic) != 0) return std::nullopt;
  if (loadLittle<uint64_t>(id + kChecksumAt) != hashBytes(id, kChecksumAt)) return std::nullopt;
  UniqueIdStamp stamp;
  stamp.server.address.family = static_cast<Family>(id[kFamilyAt]);
  stamp.server.port = loadLittle<uint16_t>(id + kPortAt);
  stamp.server.address.scope = loadLittle<uint32_t>(id + kScopeAt);
  memcpy(stamp.server.address.bytes.data(), id + kAddressAt, 16);
  stamp.nonce = loadLittle<uint64_t>(id + kNonceAt);
  bool known =
      stamp.server.address.family == Family::ipv4 || stamp.server.address.family == Family::ipv6;
  return known ? std::optional(stamp) : std::nullopt;
}

bool hasAgreementStamp(const uint8_t* id) {
  return readStamp(id).has_value();
}

}  // namespace cinch
