// Copies out what PyTorch DDP says of its buckets through a communicator (DdpListener has what that
// is), on one rank. The program sees nothing of it, and nobody waits: each message is copied to
// host memory on the stream that received it, and read when it has arrived.
//
// Messages are read in the order of their calls. One that had to be left out is a gap, behind which
// nothing that was heard before is trusted. Thread-safe.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>

#include "interpose/comm/buffer.h"
#include "interpose/policy/layers/ddp_layout.h"
#include "interpose/policy/signature.h"

namespace cinch {

class DdpEar {
 public:
  // `device` lives for ever; `nRanks` are those of the communicator, which is on `cudaDevice`.
  DdpEar(const DeviceTable& device, int cudaDevice, int nRanks);
  // Memory that is being copied to goes to the MemoryReserve.
  ~DdpEar();
  DdpEar(const DdpEar&) = delete;

  // NCCL has put a call on `stream`, of which nothing has been enqueued behind it: `received_dev`
  // is its receive buffer. Ignores what DDP does not send, and calls in a capture, which move
  // nothing.
  void hear(const Signature& call, const void* received_dev, void* stream);
  // NCCL may or may not have put it on a stream yet.
  void miss(const Signature& call);

  // Reads what has arrived. `nChanges` grows with whatever could change the answers.
  struct Heard {
    DdpListener listener;
    uint64_t nChanges;
  };
  Heard heard();

  // How much may be on its way.
  static constexpr size_t kMaxMessages = 64;
  static constexpr size_t kMaxBytes = 4 << 20;

 private:
  struct Message {
    Signature call;
    size_t nBytes;
    Buffer numbers;  // pinned
    Event arrived;
  };

  bool isCaptured(void* stream) const;
  bool isAwaited(const Signature& call);
  Result<void> copy(Message& message, const void* received_dev, void* stream);
  void goDeaf(Message message, const Error& error);
  void readArrived();
  void read(const Message& message);
  void giveBack(Message message);
  void forget();

  const DeviceTable& device_;
  const int cudaDevice_;
  const size_t nRanks_;
  std::mutex mutex_;
  std::deque<Message> coming_;
  size_t nBytesComing_ = 0;
  DdpListener listener_;
  uint64_t nChanges_ = 0;
  // What may come next.
  struct {
    // Broadcasts of one int64 in a row: by PyTorch 2.15's back end a list is gathered by one from
    // each rank.
    std::atomic<size_t> nSingles{0};
    bool shapes = false;  // the last message was the gathering before them
    bool order = false;   // shapes have come
  } awaits_;
  bool isDeaf_ = false;  // after an error of the device
};

}  // namespace cinch
