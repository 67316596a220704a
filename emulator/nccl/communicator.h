// One rank's end of a communicator.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "common/result.h"
#include "emulator/nccl/bootstrap.h"
#include "emulator/nccl/connections.h"
#include "emulator/nccl/progress_thread.h"

namespace cinch::emulator {

struct CommunicatorSettings {
  int rank = 0;
  int nRanks = 1;
  int device = 0;
  int trafficClass = NCCL_CONFIG_UNDEF_INT;
  std::string name;  // for the log
};

class Communicator {
 public:
  explicit Communicator(CommunicatorSettings settings) : settings_(std::move(settings)) {}

  // Meets the other ranks: waits until all of them have come. Nothing else may be called before.
  Result<void> initialise(const UniqueId& id);

  int rank() const { return settings_.rank; }
  int nRanks() const { return settings_.nRanks; }
  int device() const { return settings_.device; }
  bool isReady() const { return progress_ != nullptr; }

  // Enqueues one group's operations on the streams that they were called with.
  Result<void> launch(std::vector<Operation> operations, std::vector<cudaStream_t> streams);
  // Waits until all that was enqueued is done; at once after a failure or abort().
  void flush();
  // Gives up all that is enqueued or waits. From any thread.
  void abort();
  // ncclSuccess, or how the communicator failed.
  ncclResult_t asyncError() const;

 private:
  std::vector<char> introduction() const;
  Result<void> readTable(const std::vector<char>& all);
  Result<void> connectRing(Bootstrap& bootstrap);
  void logLine(const UniqueId& id, const char* what) const;

  const CommunicatorSettings settings_;
  std::unique_ptr<Connections> connections_;
  std::unique_ptr<ProgressThread> progress_;  // uses connections_
};

// The communicators that the application holds, by the handle it knows them by. A handle keeps its
// object only until forget(); a thread inside a call keeps it for as long as it needs.
ncclComm_t enlist(std::shared_ptr<Communicator> communicator);
std::shared_ptr<Communicator> find(ncclComm_t handle);  // null: not, or no longer, a communicator
void forget(ncclComm_t handle);

}  // namespace cinch::emulator
