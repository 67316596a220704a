// Which compressed calls of a group run at the same time. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cinch {

// A call of a slot that needs `nBytes` of the workspace of its communicator, which holds
// `capacity`.
struct WorkspaceNeed {
  const void* comm;
  const void* slot;
  uint64_t nBytes;
  uint64_t capacity;  // at least nBytes
};

// Runs in wave `wave` (from 0) and uses the workspace from `offset` on.
struct WorkspaceUse {
  uint32_t wave;
  uint64_t offset;
};

// Fills the workspace of each communicator call by call, in order, and begins a new wave of that
// communicator when it is full, or when the slot is in the wave already: calls of a slot follow one
// another, each counted on the device and with the residuals that the last one left. What a call
// gets and which calls share its wave depends on the calls of its own communicator alone, so that
// it is the same on ranks whose groups hold other communicators too.
std::vector<WorkspaceUse> packWaves(std::span<const WorkspaceNeed> needs);

}  // namespace cinch
