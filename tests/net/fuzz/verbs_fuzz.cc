// libFuzzer target: what a peer writes to an end of a connection over verbs, its card and its
// control messages. What is taken is within the limits, and says the same when it is written again.
//
// Input: one byte, odd for a control message, then the message.
#include "net_plugin/ib/card.h"
#include "net_plugin/ib/control.h"
#include "tests/net/fuzz/fuzz_support.h"

namespace cinch::net::ib {
namespace {

void checkCard(std::span<const uint8_t> bytes) {
  const Result<Card> card = parseCard(bytes);
  if (!card) return;
  require(!card.value().ports.empty() && card.value().ports.size() <= kMaxPorts, "some ports");
  require(!card.value().queues.empty() && card.value().queues.size() <= kMaxQueues, "some queues");
  for (const QueueCard& queue : card.value().queues) {
    require(queue.port < card.value().ports.size(), "a queue is at a port of the card");
  }
  require(std::ranges::equal(encodeCard(card.value()), bytes), "a card comes back");
}

void checkControl(std::span<const uint8_t> bytes) {
  const Result<ControlMessage> message = parseControl(bytes);
  if (!message) return;
  const std::vector<uint8_t> written = encodeControl(message.value());
  require(written.size() == bytes.size() && written.size() <= kMaxControlBytes, "it is bounded");
  // Not always the same bytes: what cannot be printed has been replaced.
  const Result<ControlMessage> again = parseControl(written);
  require(again.ok() && again.value() == message.value(), "a control message comes back");
}

}  // namespace
}  // namespace cinch::net::ib

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> message(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    cinch::net::ib::checkCard(message);
  } else {
    cinch::net::ib::checkControl(message);
  }
  return 0;
}
