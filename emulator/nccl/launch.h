// From one group's communication to the user's streams and the progress threads.
//
// A stream stops once for the whole group, whatever communicators were called on it, and goes on
// when all their plans are done: plans of one group never wait for one another.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "common/result.h"
#include "emulator/nccl/communicator.h"
#include "emulator/nccl/operation.h"

namespace cinch::emulator {

// What one group called on one communicator.
struct Batch {
  std::shared_ptr<Communicator> communicator;
  std::vector<Operation> operations;
  std::vector<cudaStream_t> streams;  // each once
};

// Fails where some streams are captured and others are not, or not by the same capture.
Result<void> checkCaptures(const std::vector<Batch>& batches);

// Enqueues the group, or records it where the streams are captured: each launch of the graph then
// carries it out again.
Result<void> launch(std::vector<Batch> batches);

}  // namespace cinch::emulator
