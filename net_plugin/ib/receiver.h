// The receiving end of a connection over verbs.
#pragma once

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

class Receiver final : public Stream {
 public:
  Receiver(Wiring wiring, std::unique_ptr<ReceiverSlots> slots);
  ~Receiver() override;

  // Null while kMaxRequests groups wait. 1 to kMaxGroup buffers.
  Result<ReceivedGroup*> receive(std::span<const KnownBuffer> buffers);
  // True once all is there; sizes stay until the next receive().
  Result<bool> take(ReceivedGroup& group);

 private:
  void arrived(uint32_t immediate) override;
  void written(Work work, uint32_t id) override;
  void postWaiting() override;
  void goOn() override;
  void hear(const Confirmed& confirmed) override;
  bool isUsing(const Region& region) const override;

  void grant(const ReceivedGroup& group, size_t index, const KnownBuffer& buffer);
  bool post(ReceivedGroup& group);
  void count(size_t place, size_t part);
  const char* tryToCount(ReceivedGroup& group, size_t index, size_t part, const Arrival& arrival);
  Standing standing() const;

  const std::unique_ptr<ReceiverSlots> slots_;
  std::array<ReceivedGroup, kMaxRequests> groups_;
  uint64_t next_ = 0;
};

}  // namespace cinch::net::ib
