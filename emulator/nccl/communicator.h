// One rank's end of a communicator.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <vector>

#include "common/result.h"
#include "emulator/nccl/bootstrap.h"
#include "emulator/nccl/child.h"
#include "emulator/nccl/connections.h"
#include "emulator/nccl/launch_order.h"
#include "emulator/nccl/progress_thread.h"
#include "emulator/nccl/registrations.h"
#include "emulator/nccl/settings.h"
#include "emulator/nccl/user_operations.h"

namespace cinch::emulator {

// What a rank asks for when it takes part in making a child.
struct ChildRequest {
  std::vector<int> participants;  // of the parent's ranks, this one among them
  Choice choice;
  CommunicatorSettings settings;  // but rank and nRanks, which follow from the choices
  uint64_t nonce;                 // of this child, the same on all participants
};

class Communicator {
 public:
  explicit Communicator(CommunicatorSettings settings) : settings_(std::move(settings)) {}

  // Meets the other ranks: waits until all of them have come.
  Result<void> initialise(const UniqueId& id);
  // Waits for the other participants. Null where this rank chose NCCL_SPLIT_NOCOLOR.
  Result<std::shared_ptr<Communicator>> makeChild(const ChildRequest& request);
  // The nonces of children: one for each split, whose ranks call alike, and one for each set of
  // ranks that a shrink leaves, since those left out do not count it.
  uint64_t nextSplitNonce();
  uint64_t shrinkNonce(const std::vector<int>& remaining) const;

  const CommunicatorSettings& settings() const { return settings_; }
  int rank() const { return settings_.rank; }
  int nRanks() const { return settings_.nRanks; }
  int device() const { return settings_.device; }

  // Work on behalf of the communicator by whatever thread: set-up, launches, making children. For a
  // non-blocking one it shows as ncclInProgress. `result` becomes the state where it shows, or
  // where this was the set-up.
  void beginWork();
  void endWork(const Result<void>& result);
  // ncclInProgress before the set-up has ended and while work shows; then ncclSuccess, or how the
  // communicator failed.
  ncclResult_t state() const;
  // Fails where state() is not ncclSuccess: with what NCCL gives for calls in that state.
  Result<void> checkReady(const char* function) const;
  // Fails where the communicator takes no communication any more.
  Result<void> checkOpen(const char* function) const;

  // Begins to connect this rank to those that `operations` send to and receive from, where it is
  // not yet; and whether that goes on: until the peers' programs receive what is sent, and send
  // what is received, or the communicator ends.
  void beginToConnect(const std::vector<Operation>& operations);
  bool isConnecting(const std::vector<Operation>& operations);
  // It takes no operations any more.
  bool hasEnded() const { return !progress_->isRunning(); }

  // Null before the set-up has ended.
  ProgressThread* progress() const { return connected_.load() ? progress_.get() : nullptr; }
  LaunchOrder& order() { return order_; }
  UserOperations& userOperations() { return userOperations_; }
  const UserOperations& userOperations() const { return userOperations_; }
  Registrations& registrations() { return registrations_; }

  // Waits until all that was enqueued is done; at once after a failure or abort().
  void flush();
  // No communication from now on. False where it was called before.
  bool finalize() { return !finalized_.exchange(true); }
  bool revoke();  // also gives up what is enqueued
  // Gives up what is enqueued; nothing more is taken.
  void stop();
  // Gives up everything that waits, and returns when no work is left. From any thread.
  void abort();

 private:
  Result<void> connect(Bootstrap& bootstrap, uint64_t nonce);
  std::vector<char> introduction() const;
  Result<void> readTable(const Shares& shares);
  Result<void> connectRing(Bootstrap& bootstrap);
  Result<Bootstrap> meetParticipants(const ChildRequest& request);
  Result<std::vector<int>> choose(Bootstrap& bootstrap, const ChildRequest& request) const;
  void logLine(uint64_t nonce, const char* what) const;

  const CommunicatorSettings settings_;
  uint64_t nonce_ = 0;
  std::atomic<uint64_t> nSplits_{0};
  std::unique_ptr<Connections> connections_;
  std::unique_ptr<ProgressThread> progress_;  // uses connections_
  std::unique_ptr<Maternity> maternity_;
  std::vector<Address> maternities_;  // of all ranks
  LaunchOrder order_;
  UserOperations userOperations_;
  Registrations registrations_;

  Cancellation cancellation_;
  std::atomic<bool> connected_{false};
  std::atomic<bool> finalized_{false};
  std::atomic<bool> revoked_{false};
  std::atomic<ncclResult_t> state_{ncclInProgress};
  std::atomic<int> nWorks_{0};  // an int: the type that threads can sleep on directly
};

}  // namespace cinch::emulator
