// The layout that is in force for a slot whose precision changes, in memory that launches can read.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "interpose/comm/buffer.h"
#include "interpose/plan/collective_plan.h"
#include "kernels/wire/mixed_layout.h"

namespace cinch {

class PrecisionTables {
 public:
  // For a bucket of `plan`'s that is cut into `nRuns` runs at most. Not on the call path.
  Result<void> allocate(const DeviceTable& device, uint32_t nRuns, const CollectivePlan& plan);

  // From the next upload() on `plan`'s bucket is coded as `runs` say. The result is valid until the
  // next change().
  Result<CollectivePlan> change(const DeviceTable& device, const CollectivePlan& plan,
                                std::span<const wire::Segment> runs, uint32_t planId);
  // Enqueues the tables of the last change() on `stream`, behind all that used those before.
  Result<void> upload(const DeviceTable& device, void* stream);

  void giveUp(std::vector<Buffer>& buffers);

 private:
  struct Staging {
    Buffer memory;  // of the host
    Event copied;
  };
  Result<Staging> makeStaging(const DeviceTable& device) const;
  Result<size_t> freeStaging(const DeviceTable& device);

  size_t nBytes_ = 0;
  Buffer tables_;
  std::vector<Staging> staging_;
  size_t current_ = 0;  // the staging of the last change
  std::unique_ptr<const wire::MixedLayout> layout_;
};

}  // namespace cinch
