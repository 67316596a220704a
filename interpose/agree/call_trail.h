// What one rank of a communicator has called and how, so that ranks whose programs no longer make
// the same calls are found, also where they hang: docs/agreement.md, "Ranks that differ".
//
// Each numbered call has a hash of itself, of what was decided before it, and of all calls before.
// The control threads send these every 64 calls; a rank that makes no more calls sends those of its
// last ones, too. The server compares them (call_comparison.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>

#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/control_reader.h"

namespace cinch {

// A hash is compared after each of so many calls.
inline constexpr uint64_t kTrailStride = 64;

// From any thread. Its locks are held by nobody who waits or sends. Without allocations but in
// take(). In a forked child, where they may be held for ever, all but claim() do nothing: there is
// nothing to claim there.
class CallTrail {
 public:
  // This rank is about to make the call of that number, one behind the last that was claimed and
  // not taken back. `call` says what it is, the same on all ranks; `decided` came into force with
  // it.
  void claim(uint64_t number, uint64_t call, std::span<const Decision> decided);
  // The last call that was claimed did not take place.
  void takeBack();
  // All others did.
  void confirm();

  // What the other ranks have not been told yet, for the control thread, which asks now and then.
  std::optional<Trail> take();
  // What the call of that number was; none where that is long ago, or has not been confirmed.
  std::optional<uint64_t> callAt(uint64_t number) const;

  // Is called once, mostly by the control thread, where two ranks are found to differ.
  void onDifference(std::function<void(const Difference&)> listener);
  void receive(const Difference& difference);
  // What was found, where something is compressed; where nothing is, it does no harm of Cinch's.
  std::optional<Difference> difference() const;
  // Something is compressed from now on.
  void setActive() { found_.matters.store(true); }

 private:
  struct Call {
    uint64_t call = 0;
    uint64_t decided = 0;  // hash of what came into force with it; 0: nothing
    uint64_t hash = 0;     // of this call and all before
  };
  // Two strides: where the last multiple of a stride differs, the calls up to the one before are
  // still there.
  static constexpr uint64_t kKept = 2 * kTrailStride;
  // A program that makes 64 x 64 calls between two questions is not compared call by call.
  static constexpr uint64_t kStridesKept = 64;

  struct Told {
    uint64_t asked = 0;    // confirmed calls, when take() was last called
    uint64_t strides = 0;  // up to which a hash was sent,
    uint64_t calls = 0;    // and confirmed calls when the last ones were
  };
  struct Found {
    std::function<void(const Difference&)> listener;
    std::optional<Difference> difference;
    std::atomic<bool> isThere{false}, matters{false};
  };

  static uint64_t hashOf(const Decision& decision);
  std::optional<Trail> strides();
  std::optional<Trail> lastCalls();

  bool isForked() const { return generation_ != forkGeneration(); }

  const uint64_t generation_ = forkGeneration();
  mutable std::mutex mutex_;                      // guards what follows
  std::array<Call, kKept> calls_;                 // by number
  std::array<uint64_t, kStridesKept> strides_{};  // hashes after each kTrailStride calls
  uint64_t claimed_ = 0;
  uint64_t highest_ = 0;    // ever claimed, though taken back
  uint64_t confirmed_ = 0;  // calls that took place
  bool isLost_ = false;     // more was taken back than is kept: nothing can be said any more
  Told told_;
  Found found_;
};

}  // namespace cinch
