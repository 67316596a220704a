#include "net_plugin/wire/record.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "tests/unit/net_plugin/wire/wire_support.h"

namespace cinch::net {
namespace {

using RecordBytes = std::array<uint8_t, kRecordBytes>;

constexpr RecordType kTypes[] = {
    RecordType::open,  RecordType::opened, RecordType::grant, RecordType::chunk, RecordType::done,
    RecordType::again, RecordType::refuse, RecordType::close, RecordType::ping,  RecordType::pong};

// One of each type with all fields that it may have.
Record fullest(RecordType type) {
  switch (type) {
    case RecordType::open:
      return {.type = type, .connection = 7, .length = kOpenPayloadBytes};
    case RecordType::opened:
      return {.type = type, .connection = 7};
    case RecordType::grant:
    case RecordType::refuse:
      return {.type = type, .connection = 7, .message = 9, .total = 1 << 20};
    case RecordType::chunk:
      return {.type = type,
              .flags = kHasChecksum,
              .connection = 7,
              .message = 9,
              .length = 4096,
              .offset = 8192,
              .total = 1 << 20,
              .checksum = 0xdeadbeef};
    case RecordType::done:
      return {.type = type, .connection = 7, .message = 9};
    case RecordType::again:
      return {.type = type,
              .connection = 7,
              .message = 9,
              .length = 4096,
              .offset = 8192,
              .total = 1 << 20};
    case RecordType::close:
      return {.type = type, .flags = kFromReceiver, .connection = 7, .message = 9};
    default:
      return {.type = type, .message = 9};
  }
}

RecordBytes sealed(RecordBytes bytes) {
  storeLittle(crc32c(bytes.data(), 36), &bytes[36]);
  return bytes;
}

bool isTaken(const Record& record) {
  return parseRecord(encodeRecord(record)).has_value();
}

// `change` makes of a good record one that no peer may send.
void expectRefused(RecordType type, const std::function<void(Record&)>& change) {
  Record record = fullest(type);
  ASSERT_TRUE(isTaken(record)) << static_cast<int>(type);
  change(record);
  EXPECT_FALSE(isTaken(record)) << static_cast<int>(type);
}

TEST(Record, HasTheLayoutOfTheTable) {
  const RecordBytes bytes = encodeRecord({.type = RecordType::chunk,
                                          .flags = kHasChecksum,
                                          .connection = 0x04030201,
                                          .message = 0x14131211,
                                          .length = 0x00010203,
                                          .offset = 0x0000002726252423,
                                          .total = 0x0000003736353433,
                                          .checksum = 0x44434241});
  const RecordBytes expected = {4,    1,    0,    0,    0x01, 0x02, 0x03, 0x04, 0x11,
                                0x12, 0x13, 0x14, 0x03, 0x02, 0x01, 0,    0x23, 0x24,
                                0x25, 0x26, 0x27, 0,    0,    0,    0x33, 0x34, 0x35,
                                0x36, 0x37, 0,    0,    0,    0x41, 0x42, 0x43, 0x44};
  EXPECT_EQ(bytes, sealed(expected));
}

TEST(Record, OfEveryTypeComesBack) {
  for (RecordType type : kTypes) {
    const Record record = fullest(type);
    const auto got = parseRecord(encodeRecord(record));
    ASSERT_TRUE(got.has_value()) << static_cast<int>(type);
    EXPECT_EQ(*got, record);
    EXPECT_EQ(got->payloadBytes(),
              type == RecordType::open || type == RecordType::chunk ? record.length : 0);
  }
}

TEST(Record, WithRandomFieldsComesBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    Record record = fullest(kTypes[random() % std::size(kTypes)]);
    if (record.connection != 0) record.connection = static_cast<uint32_t>(random());
    if (record.message != 0) record.message = static_cast<uint32_t>(random());
    if (record.checksum != 0) record.checksum = static_cast<uint32_t>(random());
    if (record.total != 0) record.total = random() % (kMaxMessageBytes + 1);
    if (record.length != 0 && record.type != RecordType::open) {
      record.total = std::max<uint64_t>(record.total, 1);
      record.length =
          static_cast<uint32_t>(1 + random() % std::min<uint64_t>(kMaxChunkBytes, record.total));
      record.offset = random() % (record.total - record.length + 1);
    }
    const auto got = parseRecord(encodeRecord(record));
    ASSERT_TRUE(got.has_value());
    ASSERT_EQ(*got, record);
  }
}

TEST(Record, WithOneFlippedBitIsRefused) {
  for (RecordType type : kTypes) {
    const RecordBytes bytes = encodeRecord(fullest(type));
    for (size_t bit = 0; bit < 8 * kRecordBytes; ++bit)
      EXPECT_FALSE(parseRecord(withBitFlipped(bytes, bit)).has_value()) << bit;
  }
}

TEST(Record, OfAnUnknownTypeIsRefused) {
  for (int type = 0; type < 256; ++type) {
    if (type >= 1 && type <= 10) continue;
    RecordBytes bytes = encodeRecord({.type = RecordType::opened});
    bytes[0] = static_cast<uint8_t>(type);
    EXPECT_FALSE(parseRecord(sealed(bytes)).has_value()) << type;
  }
}

TEST(Record, WithSomethingWhereZerosBelongIsRefused) {
  for (RecordType type : kTypes) {
    for (size_t bit = 16; bit < 32; ++bit) {
      const RecordBytes bytes = withBitFlipped(encodeRecord(fullest(type)), bit);
      EXPECT_FALSE(parseRecord(sealed(bytes)).has_value());
    }
  }
}

TEST(Record, SetsOnlyTheFieldsOfItsType) {
  const std::function<void(Record&)> changes[] = {
      [](Record& r) { r.connection = 1; }, [](Record& r) { r.message = 1; },
      [](Record& r) { r.length = 1; },     [](Record& r) { r.offset = 1; },
      [](Record& r) { r.total = 8193; },   [](Record& r) { r.checksum = 1; },
      [](Record& r) { r.flags = 1; },      [](Record& r) { r.flags = 2; }};
  const auto fields = [](const Record& r) {
    return std::array<bool, 8>{r.connection != 0,  r.message != 0,    r.length != 0,
                               r.offset != 0,      r.total != 0,      r.checksum != 0,
                               (r.flags & 1) != 0, (r.flags & 2) != 0};
  };
  for (RecordType type : kTypes)
    for (size_t i = 0; i < std::size(changes); ++i)
      if (!fields(fullest(type))[i]) expectRefused(type, changes[i]);
}

TEST(Record, WithUnknownFlagsIsRefused) {
  for (RecordType type : kTypes)
    for (int bit = 2; bit < 8; ++bit)
      expectRefused(type, [bit](Record& r) { r.flags |= static_cast<uint8_t>(1 << bit); });
}

TEST(Record, ChunkLiesInsideItsMessage) {
  const auto chunk = [](uint32_t length, uint64_t offset, uint64_t total) {
    return isTaken({.type = RecordType::chunk, .length = length, .offset = offset, .total = total});
  };
  EXPECT_TRUE(chunk(0, 0, 0));
  EXPECT_TRUE(chunk(1, 0, 1));
  EXPECT_TRUE(chunk(kMaxChunkBytes, 0, kMaxChunkBytes));
  EXPECT_TRUE(chunk(kMaxChunkBytes, kMaxMessageBytes - kMaxChunkBytes, kMaxMessageBytes));
  EXPECT_FALSE(chunk(1, 0, 0));
  EXPECT_FALSE(chunk(0, 0, 1)) << "would say nothing";
  EXPECT_FALSE(chunk(0, 1, 1));
  EXPECT_FALSE(chunk(2, 0, 1));
  EXPECT_FALSE(chunk(1, 1, 1));
  EXPECT_FALSE(chunk(2, 9, 10));
  EXPECT_FALSE(chunk(kMaxChunkBytes + 1, 0, 1 << 20));
  EXPECT_FALSE(chunk(1, ~uint64_t{0}, 10)) << "offset and length overflow";
  EXPECT_FALSE(chunk(~uint32_t{0}, 0, kMaxMessageBytes));
  EXPECT_FALSE(chunk(1, 0, kMaxMessageBytes + 1));
  EXPECT_FALSE(chunk(1, 0, ~uint64_t{0}));
}

TEST(Record, OthersStayWithinTheLimits) {
  expectRefused(RecordType::open, [](Record& r) { r.length = 0; });
  expectRefused(RecordType::open, [](Record& r) { r.length = kOpenPayloadBytes + 1; });
  expectRefused(RecordType::grant, [](Record& r) { r.total = kMaxMessageBytes + 1; });
  expectRefused(RecordType::refuse, [](Record& r) { r.total = ~uint64_t{0}; });
  expectRefused(RecordType::again, [](Record& r) { r.length = 0; });
  expectRefused(RecordType::again, [](Record& r) { r.length = kMaxChunkBytes + 1; });
  expectRefused(RecordType::again, [](Record& r) { r.offset = r.total - r.length + 1; });
  expectRefused(RecordType::again, [](Record& r) { r.total = kMaxMessageBytes + 1; });
  expectRefused(RecordType::again, [](Record& r) { r.offset = ~uint64_t{0}; });
  expectRefused(RecordType::chunk, [](Record& r) { r.flags = 0; });
  EXPECT_TRUE(isTaken({.type = RecordType::grant})) << "a buffer of no bytes";
}

// Whatever the bytes are: refused, or just what encodeRecord() makes.
TEST(Record, OfRandomBytesIsRefusedOrComesBack) {
  std::mt19937_64 random(2);
  size_t taken = 0;
  for (int i = 0; i < 300000; ++i) {
    RecordBytes bytes{};
    bytes[0] = static_cast<uint8_t>(random() % 12);
    for (uint64_t n = random() % 6; n > 0; --n)
      bytes[random() % 36] = static_cast<uint8_t>(random());
    bytes = sealed(bytes);
    const auto record = parseRecord(bytes);
    if (!record) continue;
    ++taken;
    ASSERT_EQ(encodeRecord(*record), bytes);
    ASSERT_LE(record->payloadBytes(), kMaxChunkBytes);
    ASSERT_LE(record->total, kMaxMessageBytes);
    ASSERT_LE(record->offset, kMaxMessageBytes - record->length);
  }
  EXPECT_GT(taken, 1000u) << "or nothing was tried";
}

}  // namespace
}  // namespace cinch::net
