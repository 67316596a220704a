// libFuzzer target: 40 bytes of a peer, as they are and with their checksum mended. A record that
// is taken is within the limits, and encodes to the bytes that it came from.
#include "common/byte_order.h"
#include "net_plugin/wire/checksum.h"
#include "net_plugin/wire/record.h"
#include "tests/net/fuzz/fuzz_support.h"

namespace cinch::net {
namespace {

using RecordBytes = std::array<uint8_t, kRecordBytes>;

bool check(const RecordBytes& bytes) {
  const auto record = parseRecord(bytes);
  if (!record) return false;
  require(encodeRecord(*record) == bytes, "a record comes back");
  require(record->payloadBytes() <= kMaxChunkBytes, "a payload is bounded");
  require(record->total <= kMaxMessageBytes, "a message is bounded");
  if (record->type == RecordType::open) return true;
  require(record->length <= record->total, "a part is not longer than its message");
  require(record->offset <= record->total - record->length, "a part lies in its message");
  return true;
}

RecordBytes mended(RecordBytes bytes) {
  storeLittle(crc32c(bytes.data(), 36), &bytes[36]);
  return bytes;
}

}  // namespace
}  // namespace cinch::net

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cinch::net;
  const RecordBytes bytes = FuzzBytes({data, size}).take<kRecordBytes>();
  const RecordBytes whole = mended(bytes);
  require(!check(bytes) || bytes == whole, "what is taken has the right checksum");
  check(whole);
  return 0;
}
