// The receiving end of a connection over verbs.
#pragma once

#include <deque>

#include "net_plugin/ib/slots.h"
#include "net_plugin/ib/stream.h"

namespace cinch::net::ib {

// A buffer and what makes it known; `region` may be null where there are no bytes.
struct KnownBuffer {
  void* data = nullptr;
  size_t capacity = 0;
  int tag = 0;
  const Region* region = nullptr;
};

// Buffers that wait together. Free again once take() has given it back.
class ReceivedGroup {
 public:
  size_t nBuffers() const { return n_; }
  size_t nBytes(size_t index) const { return entries_[index].nBytes; }

 private:
  friend class Receiver;
  struct Entry {
    uint32_t capacity = 0;
    const Region* region = nullptr;
    uint32_t nBytes = 0;
    uint8_t nParts = 0;  // 0: nothing is known yet
    uint8_t parts = 0;   // a bit for each that is there

    bool isComplete() const { return nParts > 0 && parts == (1u << nParts) - 1; }
  };

  bool isComplete() const;

  bool isTaken_ = false;
  uint64_t number_ = 0;
  size_t n_ = 0;
  std::array<Entry, kMaxGroup> entries_;
  // The grant has to be posted; and the device still reads what is to be written.
  bool isToBeGranted_ = false;
  bool isGranting_ = false;
};

// A flush that its owner waits for. Free again once take() has given it back.
class PendingFlush {
 private:
  friend class Receiver;
  enum class Stage { free, waiting, posted, done };

  Stage stage_ = Stage::free;
  const void* data_ = nullptr;
  const Region* region_ = nullptr;
  uint32_t id_ = 0;  // of its read
};

class Receiver final : public Stream {
 public:
  Receiver(Wiring wiring, std::unique_ptr<ReceiverSlots> slots);
  ~Receiver() override;

  // Null while kMaxRequests groups wait. 1 to kMaxGroup buffers.
  Result<ReceivedGroup*> receive(std::span<const KnownBuffer> buffers);
  // True once all is there; sizes stay until the next receive().
  Result<bool> take(ReceivedGroup& group);

  // Whether there is anything to flush: the device reaches the memory of GPUs.
  bool flushes() const { return flushes_; }
  // Makes all that has been received visible to the GPU whose memory holds this byte. To kPlaces of
  // them at a time. Goes on over another lane where this one fails, and works when the peer has
  // closed. `region` holds `data`.
  Result<PendingFlush*> flush(const void* data, const Region& region);
  // True once it is visible.
  Result<bool> take(PendingFlush& flush);

 private:
  void arrived(uint32_t immediate) override;
  void written(Work work, uint32_t id) override;
  void postWaiting() override;
  void goOn() override;
  void goOnAlone() override;
  void hear(const Confirmed& confirmed) override;
  bool isUsing(const Region& region) const override;

  void grant(const ReceivedGroup& group, size_t index, const KnownBuffer& buffer);
  bool post(ReceivedGroup& group);
  bool post(PendingFlush& flush);
  void flushAgain();
  Result<void> progressAlone();
  void count(size_t place, size_t part);
  const char* tryToCount(ReceivedGroup& group, size_t index, size_t part, const Arrival& arrival);
  Standing standing() const;

  const std::unique_ptr<ReceiverSlots> slots_;
  std::array<ReceivedGroup, kMaxRequests> groups_;
  uint64_t next_ = 0;
  const bool flushes_;
  std::array<PendingFlush, kPlaces> pending_;
  std::deque<size_t> toFlush_;  // those that wait, to be posted in this order
  size_t flushLane_ = 0;        // where they are posted
  uint32_t nReads_ = 0;
};

}  // namespace cinch::net::ib
