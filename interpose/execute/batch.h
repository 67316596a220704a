// Compressed calls on their way: those that a group holds run together, stage by stage; a call
// outside of groups is a batch of one.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "interpose/comm/comm_state.h"
#include "interpose/execute/collective.h"
#include "interpose/execute/turn.h"
#include "interpose/plan/waves.h"

namespace cinch {

struct BatchItem {
  std::shared_ptr<CommState> comm;
  Slot* slot;  // active, or one whose connections are to be made
  Collective call;
  InputFactor factor;
  uint64_t captureId = 0;
  Turn turn{};
  bool connectOnly = false;  // exchange whatever is there, to have NCCL connect; no codec
  CollectivePlan plan{};     // which it follows; Batch sets it when its wave begins
  std::optional<uint64_t>
      examined{};           // the number of the call where it is to be examined; likewise
  bool isMeasured = false;  // this rank looks at what comes out
  WorkspaceUse use{};       // where and when it runs; Batch sets it
  Residuals residuals{};    // which it uses; Batch sets them
};

// The stages of all `items`, which must outlive it: encode; one group of every exchange; reduce;
// one group of every gather; decode. Each stage goes through the items in their order.
class Batch {
 public:
  Batch(std::span<BatchItem> items, const RealNccl& real);

  // Before anything else: settles which plans the items of the first wave follow. May wait for
  // rank 0's advice (execute/checkup.h).
  Result<void> begin();

  // Records the first exchanges of the items of `comm` into the thread's open group of the real
  // NCCL, where they follow what the program has put there. Enqueues nothing yet.
  Result<void> recordExchanges(ncclComm_t comm);

  // Enqueues everything on the items' streams. Where `isRecorded`, the first exchanges are in the
  // thread's open group already, which is closed in any case. Returns what the program is to be
  // told. Waits for nobody, but for NCCL's helper thread where a communicator is non-blocking.
  // After an error all communicators of the items have failed.
  ncclResult_t run(bool isRecorded);
  // All communicators of the items have failed.
  ncclResult_t fail(const Error& error);

 private:
  using Stage = Result<void> (*)(BatchItem&);

  Result<void> each(uint32_t wave, Stage stage);
  bool gathers(uint32_t wave) const;
  Result<void> runWave(uint32_t wave, bool isRecorded);
  Result<void> exchangeAll(uint32_t wave, bool isRecorded);
  Result<void> gatherAll(uint32_t wave);
  Result<void> closeGroup(uint32_t wave, Result<void> before);

  const std::span<BatchItem> items_;
  const RealNccl& real_;
  uint32_t nWaves_ = 1;
  bool hasBegun_ = false;
  ncclResult_t told_ = ncclSuccess;  // ncclInProgress: NCCL said so of what else is in the group
};

// Returns when NCCL has launched what it said is in progress: only then may more work be enqueued.
// At once where the communicator is a blocking one. An abort ends the wait.
Result<void> awaitLaunch(const CommState& comm);

}  // namespace cinch
