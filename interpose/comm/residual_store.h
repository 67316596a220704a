// Residuals that outlive the job (CINCH_RESIDUAL_DIR): what error feedback owes the gradients when
// a communicator ends in order is paid by the same communicator of the job that goes on from a
// checkpoint.
//
// Each rank decides for itself, since nobody else can observe what it adds. But a rank takes up all
// of a communicator's residuals or none: only where its slots are those of the file, in identity
// (signature, codec, place in the step), size and form, are they taken to hold the same parameters.
// The probe then compares profiles as it does from call to call (kernels/core/probe.h). Graphs
// start from zero.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "interpose/comm/residual_path.h"
#include "interpose/comm/slot.h"

namespace cinch {

class ResidualStore {
 public:
  using Slots = std::vector<std::unique_ptr<Slot>>;

  // `name` is the communicator's, for the log.
  ResidualStore(const std::string& folder, const ResidualOwner& owner, std::string name)
      : path_(folder, owner), owner_(owner), name_(std::move(name)) {}

  // For both: `device`'s device is the current one and the capture mode is relaxed. What goes wrong
  // is logged, with the path and the cause. They block on the file and on their own copies only.

  // Before the first call with feedback, when all slots have their memory. Otherwise residuals
  // start from zero.
  void load(const DeviceTable& device, const Slots& slots) const;
  // When all calls are done. Leaves the file that is there where it fails.
  void save(const DeviceTable& device, const Slots& slots) const;

 private:
  const ResidualPath path_;
  const ResidualOwner owner_;
  const std::string name_;
};

// Of the slots that have a place in the step.
uint32_t latestEpoch(const ResidualStore::Slots& slots);

}  // namespace cinch
