#include "net_plugin/wire/record.h"

#include <algorithm>
#include <iterator>

#include "common/byte_order.h"
#include "net_plugin/wire/checksum.h"

namespace cinch::net {
namespace {

constexpr size_t kGuardedRecordBytes = kRecordBytes - sizeof(uint32_t);

// What a type may set besides its connection; all else is zero.
struct Fields {
  bool connection = true;
  bool message = false;
  bool length = false;
  bool offset = false;
  bool total = false;
  uint8_t flags = 0;
};

constexpr Fields part(uint8_t flags) {
  return {.message = true, .length = true, .offset = true, .total = true, .flags = flags};
}

// In the order of RecordType, from 1.
constexpr Fields kFields[] = {
    {.length = true},                           // open
    {},                                         // opened
    {.message = true, .total = true},           // grant
    part(kHasChecksum),                         // chunk
    {.message = true},                          // done
    part(0),                                    // again
    {.message = true, .total = true},           // refuse
    {.message = true, .flags = kFromReceiver},  // close
    {.connection = false, .message = true},     // ping
    {.connection = false, .message = true},     // pong
};
static_assert(std::size(kFields) == static_cast<size_t>(RecordType::pong));

bool setsOnly(const Record& record, const Fields& fields) {
  return (fields.connection || record.connection == 0) && (fields.message || record.message == 0) &&
         (fields.length || record.length == 0) && (fields.offset || record.offset == 0) &&
         (fields.total || record.total == 0) && (record.flags & ~fields.flags) == 0 &&
         ((record.flags & fields.flags & kHasChecksum) != 0 || record.checksum == 0);
}

// [offset, offset + length) is a part of [0, total), of a size that travels at once.
bool isPart(uint64_t offset, uint32_t length, uint64_t total) {
  return length <= kMaxChunkBytes && length <= total && offset <= total - length;
}

bool isWithinLimits(const Record& record) {
  if (record.total > kMaxMessageBytes) return false;
  switch (record.type) {
    case RecordType::open:
      return record.length == kOpenPayloadBytes;
    case RecordType::chunk:
      // Only an empty message has an empty chunk.
      return isPart(record.offset, record.length, record.total) &&
             (record.length == 0) == (record.total == 0);
    case RecordType::again:
      return record.length > 0 && isPart(record.offset, record.length, record.total);
    default:
      return true;
  }
}

bool isKnown(uint8_t type) {
  return type >= 1 && type <= std::size(kFields);
}

}  // namespace

std::array<uint8_t, kRecordBytes> encodeRecord(const Record& record) {
  std::array<uint8_t, kRecordBytes> bytes{};
  uint8_t* at = bytes.data();
  at[0] = static_cast<uint8_t>(record.type);
  at[1] = record.flags;
  storeLittle(record.connection, at + 4);
  storeLittle(record.message, at + 8);
  storeLittle(record.length, at + 12);
  storeLittle(record.offset, at + 16);
  storeLittle(record.total, at + 24);
  storeLittle(record.checksum, at + 32);
  storeLittle(crc32c(at, kGuardedRecordBytes), at + kGuardedRecordBytes);
  return bytes;
}

std::optional<Record> parseRecord(std::span<const uint8_t, kRecordBytes> bytes) {
  const uint8_t* at = bytes.data();
  if (loadLittle<uint32_t>(at + kGuardedRecordBytes) != crc32c(at, kGuardedRecordBytes))
    return std::nullopt;
  if (!isKnown(at[0]) || loadLittle<uint16_t>(at + 2) != 0) return std::nullopt;
  const Record record = {.type = static_cast<RecordType>(at[0]),
                         .flags = at[1],
                         .connection = loadLittle<uint32_t>(at + 4),
                         .message = loadLittle<uint32_t>(at + 8),
                         .length = loadLittle<uint32_t>(at + 12),
                         .offset = loadLittle<uint64_t>(at + 16),
                         .total = loadLittle<uint64_t>(at + 24),
                         .checksum = loadLittle<uint32_t>(at + 32)};
  if (!setsOnly(record, kFields[at[0] - 1]) || !isWithinLimits(record)) return std::nullopt;
  return record;
}

}  // namespace cinch::net
