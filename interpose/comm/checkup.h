// What a slot keeps for its checkups: the precision in force, and on rank 0 what it takes to judge.
// policy/precision/checkup.h says when and why.
#pragma once

#include <optional>
#include <vector>

#include "interpose/comm/examiner.h"
#include "interpose/comm/precision_tables.h"
#include "interpose/policy/precision/checkup.h"

namespace cinch {

struct Checkup {
  CheckupSchedule schedule;
  uint64_t nextCall = 0;  // calls of the slot outside of captures, the same on all ranks
  std::optional<uint64_t> examined{};  // the call that rank 0's next decision is about
  PrecisionTables tables;
  bool mustPass = false;          // rank 0 has decided so: from the next call on
  bool hasMoved = false;          // its buffers, since the last examination
  std::optional<uint32_t> place;  // the slot's Place::slot, where it has one

  // Rank 0's; between an examination and the proposal that comes of it, the background thread's.
  std::optional<Adviser> adviser;
  Examiner examiner;

  Result<void> allocate(const DeviceTable& device, const CollectivePlan& plan) {
    const auto nRuns = static_cast<uint32_t>(std::min<uint64_t>(plan.layout.tiles(), kMaxSegments));
    CINCH_TRY(tables.allocate(device, nRuns, plan));
    if (!adviser) return {};
    return examiner.allocate(device, wire::ShardLayout::tilesOf(plan.bucketElems()));
  }
  void giveUp(std::vector<Buffer>& buffers) {
    tables.giveUp(buffers);
    examiner.giveUp(buffers);
  }
};

}  // namespace cinch
