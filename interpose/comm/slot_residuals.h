// What error feedback keeps between the calls of a slot. Those of calls on streams are taken where
// they are first wanted and given back where they are not any more; those of calls in graphs live
// as long as the slot.
#pragma once

#include <atomic>
#include <map>
#include <utility>
#include <vector>

#include "interpose/comm/buffer.h"
#include "interpose/comm/returnable_buffer.h"

namespace cinch {

// Null where there are none.
struct Residuals {
  void* encode = nullptr;
  void* reduce = nullptr;       // of the owned shard
  ProbeState* probe = nullptr;  // what the last call's values looked like
};

// What residuals take: that of stage 1, and that of stage 2, which is this part of one of the whole
// bucket.
struct ResidualRange {
  uint64_t encodeBytes = 0;
  uint64_t ownedFirst = 0, ownedEnd = 0;
  uint64_t ownedBytes() const { return ownedEnd - ownedFirst; }
  bool operator==(const ResidualRange&) const = default;
};

class SlotResiduals {
 public:
  // What is small, and kept. Holds nothing after an error.
  Result<void> prepare(const DeviceTable& device);
  // Takes the driver's time, and waits for no other work; the capture mode must be relaxed. Within
  // the process's budget, and nothing after an error. The next call starts from zero.
  Result<void> take(const DeviceTable& device, const ResidualRange& range);
  // What is on `stream` may still use them.
  void giveBack(void* stream);
  // Nothing does. The capture mode must be relaxed.
  void giveBackUnused();
  // Something may use them for ever.
  void strand();
  bool areHeld() const { return static_cast<bool>(encode_); }
  // Of the plan that they are held for, which the one in force may have left behind (move()).
  const ResidualRange& range() const { return range_; }
  uint64_t bytes() const { return encode_.bytes() + reduce_.bytes(); }
  // Where the report says how many; null: nowhere.
  std::atomic<uint64_t>* figure = nullptr;

  // Of calls on streams.
  Residuals pointers() const;
  // The next call starts from zero.
  void drop() { isStale_ = true; }
  // The next call belongs to this epoch of its communicator's sequence, where the slot has a place:
  // residuals of another one are not its own.
  void enterEpoch(uint32_t epoch);
  uint32_t epoch() const { return epoch_; }
  // Whether the next call of `epoch` adds them.
  bool owes(uint32_t epoch) const { return areHeld() && !isStale_ && epoch == epoch_; }

  struct Refreshed {
    bool hasMoved = false;  // the caller's buffers are not those of the last call
    bool isZeroed = false;
  };
  // Before a call on `stream`: zeroes them there if it must not use them.
  Result<Refreshed> refresh(const DeviceTable& device, const void* send, const void* recv,
                            void* stream);
  // Before the first call: that one adds what is written to them until then, zero where nothing is,
  // whatever its buffers are. The capture mode must be relaxed.
  Result<void> resume(const DeviceTable& device);
  // Another part of the bucket is owned from the next call on, which is on `stream`. A residual of
  // stage 2 stays with its value, if that is still this rank's. After an error stage 2 has none.
  Result<void> move(const DeviceTable& device, const ResidualRange& range, void* stream);

  // Those of the next call in the capture `id`, zero when its graph first runs. Graphs keep their
  // own, one pair for each call of this slot in a capture, since several buckets may share the slot
  // and a graph cannot see whether its buffers are those of the last call. An error once for each
  // call that goes without feedback, since there is no memory.
  Result<Residuals> captured(const DeviceTable& device, const ResidualRange& range, uint64_t id);

  // Adds what is not given back but kept or left to `buffers`.
  void giveUp(std::vector<Buffer>& buffers);

 private:
  struct OfGraph {
    Buffer encode, reduce, probe;
  };
  void forget();
  void show() const;
  Result<OfGraph> makeCaptured(const DeviceTable& device, const ResidualRange& range);
  static Result<OfGraph> allocateCaptured(const DeviceTable& device, const ResidualRange& range);

  int cudaDevice_ = 0;  // of what is held
  ResidualRange range_;
  ReturnableBuffer encode_, reduce_;
  Buffer probe_;
  std::pair<const void*, const void*> last_{};  // the buffers of the last call
  bool isStale_ = true;                         // not zeroed yet
  uint32_t epoch_ = 0;

  uint64_t capturedBytes_ = 0;
  std::vector<OfGraph> captured_;          // by occurrence in a capture
  std::map<uint64_t, size_t> nInCapture_;  // by capture, since several may be under way
};

}  // namespace cinch
