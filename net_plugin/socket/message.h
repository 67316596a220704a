// The two ends of a message on its way, cut into chunks. Pure bookkeeping: no sockets, no threads;
// the link's lock guards all but `outcome`.
//
// A chunk may be sent more than once (its flow was late, or died); it counts once. The bytes of a
// buffer are touched only by those who said so, and a message ends only when nobody does, so
// that its owner may do with the buffer what it likes as soon as the outcome is known. Short
// messages are copied, and done for their owner at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "net_plugin/wire/record.h"

namespace cinch::net {

// Chunks begin at multiples of this, and are of as many bytes but for the last of a message.
inline constexpr uint32_t kGridBytes = 32 << 10;

enum class Outcome : int { pending, done, failed };

// A message no longer than this is copied, and goes out before anybody is known to wait for it.
inline constexpr uint64_t kEagerBytes = 16 << 10;

struct Chunk {
  uint32_t index = 0;
  uint64_t offset = 0;
  uint32_t length = 0;
};

class OutgoingMessage {
 public:
  OutgoingMessage(uint32_t connection, uint32_t number, const void* data, uint64_t total,
                  uint32_t chunkBytes);
  // One that keeps its bytes itself, in one chunk.
  OutgoingMessage(uint32_t connection, uint32_t number, std::vector<char> bytes);

  uint32_t connection() const { return connection_; }
  uint32_t number() const { return number_; }
  uint64_t total() const { return total_; }
  const char* data() const { return data_; }
  bool isCopy() const { return isCopy_; }

  bool hasUnsent() const { return next_ < flows_.size() || !returned_.empty(); }
  // Bytes that no flow has taken.
  uint64_t unsentBytes() const { return unsent_; }
  // The chunk that goes next; peek() requires hasUnsent().
  Chunk peek() const;
  Chunk take(int flow);

  Chunk chunk(uint32_t index) const;
  // The chunk that holds `offset`, if it is one that was taken.
  std::optional<Chunk> takenAt(uint64_t offset) const;
  // Sends a chunk again that flow `flow` has: once for each chunk. False where it was already.
  bool takeAgain(uint32_t index, int flow);
  // What `flow` took goes back to the unsent; so does one chunk that arrived damaged.
  void giveBack(int flow);
  void giveBackChunk(uint32_t index);

  // The receiver has all of it.
  void setDelivered() { delivered_ = true; }
  bool isDelivered() const { return delivered_; }
  void use() { ++users_; }
  void release() { --users_; }
  // Settles the outcome where the message is ending and nobody reads the buffer any more.
  void settle();
  // Ends it, delivered or not.
  void fail() { failing_ = true; }
  bool isEnding() const { return delivered_ || failing_; }
  // Its owner gets the buffer back, though the peer may not have it all.
  bool isGivenUp() const { return failing_ && !delivered_ && !isCopy_; }
  // It has ended, and nobody reads its bytes.
  bool isThrough() const { return isThrough_; }

  // For the owner of the buffer.
  std::atomic<Outcome> outcome{Outcome::pending};

 private:
  void giveBackIndex(uint32_t index);

  static constexpr uint8_t kNoFlow = 0xff;
  const uint32_t connection_;
  const uint32_t number_;
  const std::vector<char> own_;
  const bool isCopy_;
  const char* const data_;
  const uint64_t total_;
  const uint32_t chunkBytes_;
  std::vector<uint8_t> flows_;  // by chunk: who took it last
  std::vector<bool> repeated_;  // by chunk
  std::vector<uint32_t> returned_;
  size_t next_ = 0;
  uint64_t unsent_;
  int users_ = 0;
  bool delivered_ = false;
  bool failing_ = false;
  bool isThrough_ = false;
};

class IncomingMessage {
 public:
  // A buffer that waits, or (null) memory of its own for a small message nobody waits for yet.
  IncomingMessage(uint32_t number, void* buffer, uint64_t capacity);

  uint32_t number() const { return number_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t total() const { return total_; }

  enum class Verdict { wanted, known, tooLarge, wrong };
  // What a chunk that begins to arrive is: `wanted` bytes go to at(offset); `known` ones are to be
  // dropped; too large for the buffer; or such as no honest sender sends.
  Verdict judge(uint64_t offset, uint32_t length, uint64_t total);
  char* at(uint64_t offset) const { return buffer_ + offset; }
  bool has(uint64_t offset) const { return have_[offset / kGridBytes]; }
  // The chunk at `offset` is in the buffer, and right.
  void arrived(uint64_t offset, uint32_t length);

  // One flow at a time fills a place of the buffer: false where another does.
  bool claim(uint64_t offset, uint64_t flow);
  void unclaim(uint64_t offset, uint64_t flow);
  // Around each read of that flow into the buffer.
  void beginRead(uint64_t offset, uint64_t flow);
  void endRead(uint64_t offset, uint64_t flow);
  // Puts a chunk into its place that came another way: now, or when the read that is under way
  // there has ended.
  void place(uint64_t offset, const char* bytes, uint32_t length);

  bool isComplete() const { return total_ != kUnknown && missing_ == 0; }
  // True once for each chunk: it may be asked for again.
  bool mayAskAgain(uint64_t offset);
  // The offsets of chunks that were asked for again and are still not there.
  std::vector<uint64_t> askedFor() const;

  // True once, when the message turns out to be a long one; and once when that one has ended.
  bool countsAsLong();
  bool stopsBeingLong() { return std::exchange(isLong_, false); }
  void settle();
  void fail() { failing_ = true; }
  bool isEnding() const { return failing_ || outcome.load() != Outcome::pending; }

  std::atomic<Outcome> outcome{Outcome::pending};

 private:
  struct Claim {
    uint64_t offset = 0;
    uint64_t flow = 0;  // its serial number
    bool isReading = false;
    std::vector<char> replacement;  // to be put there when the read has ended
  };
  Claim* claimAt(uint64_t offset);

  static constexpr uint64_t kUnknown = ~uint64_t{0};
  const uint32_t number_;
  std::vector<char> own_;
  char* const buffer_;
  const uint64_t capacity_;
  uint64_t total_ = kUnknown;
  std::vector<bool> have_;   // by grid place
  std::vector<bool> asked_;  // by grid place
  uint64_t missing_ = 0;     // grid places
  std::vector<Claim> claims_;
  bool isLong_ = false;
  bool failing_ = false;
};

}  // namespace cinch::net
