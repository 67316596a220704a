// What travels on a flow once its handshake is done: records of 40 bytes, some with a payload.
//
// A flow (one TCP connection) carries records of all connections between two processes, in both
// directions. A message is cut into chunks that may take different flows and arrive in any order; a
// chunk says itself where it belongs.
//
// All numbers are little-endian. Offset, size, field:
//    0  1  type
//    1  1  flags
//    2  2  zero
//    4  4  connection: chosen by its sender, unique among the connections that one process opens
//    8  4  message: counts the messages of a connection, from 0, wraps
//   12  4  length: bytes of payload behind this record
//   16  8  offset: of the payload in the message
//   24  8  total: bytes of the message, or of the buffer that waits for it
//   32  4  CRC32C of the payload, where the flag says so
//   36  4  CRC32C of the 36 bytes before
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace cinch::net {

inline constexpr size_t kRecordBytes = 40;
inline constexpr uint32_t kMaxChunkBytes = 128 << 10;
inline constexpr uint32_t kOpenPayloadBytes = 16;  // the listener's token
inline constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 40;

// What a type sets besides its connection; all other fields are zero. (A message of no bytes is one
// chunk of length 0.)
//    open    length (kOpenPayloadBytes)
//    grant   message, total
//    chunk   message, length, offset, total; with kHasChecksum the checksum
//    done    message
//    again   message, length, offset, total
//    refuse  message, total
//    close   message; flag kFromReceiver
//    ping    message, no connection; pong as well
enum class RecordType : uint8_t {
  open = 1,    // sender of messages: a connection to the listener whose token is the payload
  opened = 2,  // receiver: accepted
  grant = 3,   // receiver: a buffer of `total` bytes waits for `message`
  chunk = 4,   // sender: payload
  done = 5,    // receiver: all of `message` is there, its buffer no longer needed here
  again = 6,   // receiver: the chunk at `offset` of `length` bytes arrived damaged; has no payload
  refuse = 7,  // receiver: `message` (of `total` bytes) does not fit into the buffer posted for it
  close = 8,   // either: the connection ends; flag kFromReceiver says who speaks, and that all in
               // front of `message` have been received
  ping = 9,    // either: answer with a pong of the same `message`
  pong = 10,
};

inline constexpr uint8_t kHasChecksum = 1;   // chunk: the payload's CRC is there
inline constexpr uint8_t kFromReceiver = 2;  // close

struct Record {
  RecordType type = RecordType::ping;
  uint8_t flags = 0;
  uint32_t connection = 0;
  uint32_t message = 0;
  uint32_t length = 0;
  uint64_t offset = 0;
  uint64_t total = 0;
  uint32_t checksum = 0;

  bool operator==(const Record&) const = default;
  // Bytes that follow on the flow.
  uint32_t payloadBytes() const {
    return type == RecordType::chunk || type == RecordType::open ? length : 0;
  }
};

std::array<uint8_t, kRecordBytes> encodeRecord(const Record& record);

// The one parser of what a peer writes. Nothing where the bytes are no record that a peer may send:
// wrong checksum, unknown type or flag, a field set that its type does not use, a chunk longer than
// kMaxChunkBytes or not inside [0, total), a total above kMaxMessageBytes.
std::optional<Record> parseRecord(std::span<const uint8_t, kRecordBytes> bytes);

}  // namespace cinch::net
