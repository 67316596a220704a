// One of a link's TCP connections, with what is on its way over it.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "net_plugin/socket/channel.h"
#include "net_plugin/socket/flow_io.h"
#include "net_plugin/socket/rate.h"

namespace cinch::net {

// A chunk that the kernel has, up to which byte of the flow.
struct SentChunk {
  uint64_t end = 0;
  std::shared_ptr<OutgoingMessage> message;
  uint32_t index = 0;
};

// A chunk that is being written.
struct Departure {
  std::shared_ptr<OutgoingMessage> message;  // null: nobody needs the rest of it
  Chunk chunk;
  bool checksumDue = false;  // its record still lacks it
};

// What the payload that is arriving belongs to.
struct Arrival {
  Record record;
  std::shared_ptr<ReceiveChannel> channel;
  std::shared_ptr<IncomingMessage> message;  // null: the payload is dropped, or a token
  bool intoSpare = false;                    // another flow fills the same place of the buffer
};

struct Flow {
  static uint64_t nextSerial() {
    static std::atomic<uint64_t> next{0};
    return next.fetch_add(1);
  }

  Flow(int index, Socket socket)
      : index(index), socket(std::move(socket)), writer(this->socket), reader(this->socket) {
    // Short of memory between two of them would leave some in use for ever.
    leaving.reserve(FlowWriter::kMostChunks);
    payloads.reserve(FlowWriter::kMostChunks);
  }

  const int index;
  const uint64_t serial = nextSerial();  // of no other flow, ever
  const Socket socket;
  std::atomic<bool> isDead{false};
  std::atomic<bool> isMute{false};     // nothing can be written any more; dead when all is read
  std::atomic<bool> isWriting{false};  // a record is not through yet

  // Whoever writes holds `sending`, whoever reads `receiving`, and never waits for either. The
  // link's lock is taken inside of them, never the other way around.
  std::mutex sending;
  FlowWriter writer;
  std::vector<Departure> leaving;     // what the writer has; changes under the link's lock, too
  std::vector<const char*> payloads;  // of these, while they are written

  std::mutex receiving;
  FlowReader reader;
  std::optional<Arrival> arrival;
  Token token{};            // of an `open` that is arriving
  std::vector<char> spare;  // a chunk that another flow is filling, too

  // Under the link's lock.
  std::deque<SentChunk> sent;  // not acknowledged
  FlowRate rate;
  std::vector<uint8_t> own;      // records that go over this flow and no other
  std::vector<uint8_t> records;  // about to be written
  Clock::time_point lastHeard = Clock::now();
  bool hasSpoken = false;  // the peer, over this flow
  std::optional<Clock::time_point> pingSince;
  bool isSick = false;      // takes a chunk now and then, to see
  bool isDoubtful = false;  // carries no records that others can
  bool isCovered = false;   // what it had before it was doubtful has been said again
  bool isFull = false;      // the kernel takes no more for now
  Clock::time_point nextProbe{};
  bool sendingEnded = false;  // isDead was seen by that half
  bool receivingEnded = false;
  bool isThrough() const { return sendingEnded && receivingEnded; }
};

}  // namespace cinch::net
