// Compressed calls on their way: those that a group holds run together, stage by stage; a call
// outside of groups is a batch of one.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "interpose/comm/comm_state.h"
#include "interpose/execute/call_mode.h"
#include "interpose/execute/collective.h"
#include "interpose/plan/waves.h"

namespace cinch {

class Neighbours;

struct BatchItem {
  std::shared_ptr<CommState> comm;
  Slot* slot;  // active, or one whose connections are to be made
  Collective call;
  InputFactor factor;
  uint64_t captureId = 0;
  CallMode mode{};
  bool connectOnly = false;  // exchange whatever is there, to have NCCL connect; no codec
  SiteExam exam{};           // of a call that passed and was measured
  uint64_t number = 0;       // of the call, the same on all ranks
  bool isPlaced = true;      // it had its place when it was made
  bool takesStep = true;     // it gets its slot ready; another call of the group does, else
  CollectivePlan plan{};     // which it follows; Batch sets it when its wave begins
  std::optional<uint64_t>
      examined{};                // the number of the call where it is to be examined; likewise
  bool isMeasured = false;       // this rank looks at what comes out
  bool isAlone = false;          // among those of its communicator in the batch; Batch sets it
  WorkspaceUse use{};            // where and when it runs; Batch sets it
  Residuals residuals{};         // which it uses; Batch sets them
  TracedCall* traced = nullptr;  // where it is sampled for CINCH_TRACE; Batch sets it
};

// The stages of all `items`, which must outlive it: encode; one group of every exchange; reduce;
// one group of every gather; decode. Each stage goes through the items in their order.
//
// Where buckets have chunks, the stages of a chunk come between those of others:
//
//   stream        exchange 0, exchange 1, gather 0, exchange 2, gather 1, ...
//   codec stream  encode 0, encode 1, reduce 0, encode 2, reduce 1, decode 0, encode 3, ...
//
// The messages come in this order on every rank. A rank's codec has a stream of its own
// (comm/codec_stream.h) where the call is its communicator's only one in the batch; else all is on
// the caller's, in an order that follows from these. Captured calls have one chunk.
//
// What the hosts sum up first (execute/hosts.h) has a group of messages before all that, which the
// other items' exchange 0 is in, and one after it.
//
// Calls that follow one another on a stream share the launches of their codec (neighbours.h).
class Batch {
 public:
  Batch(std::span<BatchItem> items, const RealNccl& real);

  // Before anything else: settles which plans the items of the first wave follow.
  Result<void> begin();

  // Records the first messages of the items of `comm` into the thread's open group of the real
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
  using ChunkStage = Result<void> (*)(BatchItem&, uint32_t chunk);
  using CodecStage = Result<void> (*)(const Neighbours&, uint32_t chunk);

  Result<void> each(uint32_t wave, Stage stage);
  // Of the items that have this chunk.
  Result<void> each(uint32_t wave, uint32_t chunk, ChunkStage stage);
  Result<void> together(uint32_t wave, uint32_t chunk, CodecStage stage);
  uint32_t mostChunks(uint32_t wave) const;
  bool gathers(uint32_t wave, uint32_t chunk) const;
  Result<void> runWave(uint32_t wave, bool isRecorded);
  Result<void> exchangeAll(uint32_t wave, uint32_t chunk, bool isRecorded);
  Result<void> gatherAll(uint32_t wave, uint32_t chunk);
  // One group of messages that only items with lanes have, if there are any.
  Result<void> groupOfLanes(uint32_t wave, ChunkStage messages);
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
