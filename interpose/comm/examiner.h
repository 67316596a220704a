// What rank 0 measures at the examined calls of a slot, and the memory for it: tallies of 20 bytes
// for each 1024 values of the bucket, twice, on the device and on the host.
#pragma once

#include <span>
#include <vector>

#include "interpose/comm/buffer.h"

namespace cinch {

class Examiner {
 public:
  // For buckets of `nTiles`. Not on the call path.
  Result<void> allocate(const DeviceTable& device, uint64_t nTiles);

  // False while the last examination is still under way: the next must wait for its turn.
  bool isFree() const { return done_.done(); }

  // On the call's stream: before stage 1, of the rank's own values; and when the compressed result
  // is there, beside the exact one. `state` is the slot's.
  Result<void> noteInput(const DeviceTable& device, const TallyLaunch& input,
                         const SlotState* state, void* stream);
  Result<void> noteResult(const DeviceTable& device, const TallyLaunch& result,
                          const SlotState* state, void* stream);

  // Host memory; valid once isFree() says so, until the next noteInput().
  std::span<const TileTally> own() const { return {host_.as<TileTally>(), nTiles_}; }
  std::span<const TileTally> result() const { return {host_.as<TileTally>() + nTiles_, nTiles_}; }
  // What stage 1 added to its account in between.
  double codedError() const { return after()->error[0] - before()->error[0]; }
  double codedPower() const { return after()->power[0] - before()->power[0]; }

  void giveUp(std::vector<Buffer>& buffers);

 private:
  size_t tallyBytes() const { return 2 * nTiles_ * sizeof(TileTally); }
  TileTally* tallies() const { return device_.as<TileTally>(); }
  SlotState* before() const { return states_.as<SlotState>(); }
  SlotState* after() const { return states_.as<SlotState>() + 1; }

  uint64_t nTiles_ = 0;
  Buffer device_, host_, states_;
  Event done_;
};

}  // namespace cinch
