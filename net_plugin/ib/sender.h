// The sending end of a connection over verbs.
#pragma once

#include <deque>

#include "net_plugin/ib/parts.h"
#include "net_plugin/ib/slots.h"
#include "net_plugin/ib/stream.h"

namespace cinch::net::ib {

// A message on its way. Its place among the sender's is free again once take() has given it back.
class SentMessage {
 public:
  uint32_t nBytes() const { return nBytes_; }

 private:
  friend class Sender;
  enum class Stage { waiting, posted, done };
  struct PartState {
    Part part;
    size_t queue = 0;
    Stage stage = Stage::done;
    bool dataIsPosted = false;
  };

  bool isTaken_ = false;  // by a message that its owner waits for
  uint64_t group_ = 0;    // of the last message here; none where hadOne_ is false
  bool hadOne_ = false;
  const char* data_ = nullptr;
  uint32_t nBytes_ = 0;
  const Region* region_ = nullptr;
  ClearToSend grant_{};
  std::array<PartState, kMaxParts> parts_;
  size_t nParts_ = 0;
  size_t left_ = 0;  // parts that are not there
};

class Sender final : public Stream {
 public:
  // `slots`: what the lanes of the wiring were made with.
  Sender(Wiring wiring, std::unique_ptr<SenderSlots> slots, bool splits);
  ~Sender() override;

  // Null while no buffer waits for it at the peer. The message goes to the next group of buffers,
  // to the first free one of its tag where there are several. `region` holds the data, and may be
  // null where there is none.
  Result<SentMessage*> send(const void* data, size_t nBytes, int tag, const Region* region);
  // True once the peer has all of it; the message is then no longer the caller's.
  Result<bool> take(SentMessage& message);

 private:
  // A buffer of the peer, and where it is in its group.
  struct Found {
    size_t index = 0;
    ClearToSend grant{};
  };

  void arrived(uint32_t immediate) override;
  void written(Work work, uint32_t id) override;
  void postWaiting() override;
  void goOn() override {}  // the peer's standing says what is to be sent again
  void hear(const Standing& standing) override;
  bool isUsing(const Region& region) const override;

  std::optional<Found> findBuffer(int tag);
  void countIn(const Found& found);
  void begin(SentMessage& message, const Found& found, const void* data, size_t nBytes,
             const Region* region);
  void cut(SentMessage& message);
  bool post(size_t place, size_t part);
  static void finish(SentMessage& message, SentMessage::PartState& part);
  void settle(size_t place, const Standing& standing, Confirmed& confirmed);

  const std::unique_ptr<SenderSlots> slots_;
  const bool splits_;
  std::array<SentMessage, kPlaces> messages_;
  uint64_t group_ = 0;       // the first with buffers that nothing was sent to
  uint32_t groupTaken_ = 0;  // its buffers that something was sent to, a bit each
  size_t nextQueue_ = 0;
  std::deque<std::pair<size_t, size_t>> waiting_;  // place and part, to be posted in this order
};

}  // namespace cinch::net::ib
