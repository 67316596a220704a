#include "interpose/execute/batch.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <unordered_map>
#include <vector>

#include "interpose/execute/checkup.h"
#include "interpose/execute/exchange.h"
#include "interpose/execute/neighbours.h"
#include "interpose/execute/stages.h"
#include "interpose/execute/trace.h"
#include "interpose/real/nccl_try.h"

namespace cinch {
namespace {

constexpr std::chrono::microseconds kPollTime{20};

Result<void> exchangeInLane(BatchItem& item, uint32_t chunk) {
  return hasLanes(item) ? exchangeLane(item, shardsOf(item, chunk)) : Result<void>();
}

Result<void> noteInLane(BatchItem& item, uint32_t chunk) {
  return hasLanes(item) ? noteExchange(item, chunk) : Result<void>();
}

// The first messages of a call with lanes come before its first chunk's.
Result<void> exchange(BatchItem& item, uint32_t chunk) {
  if (chunk == 0) CINCH_TRY(reduceExactly(item));
  if (hasLanes(item)) return chunk == 0 ? scatterParts(item) : exchangeInLane(item, chunk);
  return item.plan.exchanges() ? exchangeShards(*item.comm, shardsOf(item, chunk), item.call.stream)
                               : Result<void>();
}

Result<void> gather(BatchItem& item, uint32_t chunk) {
  if (!item.plan.gathers()) return {};
  const ShardBuffers shards = shardsOf(item, chunk);
  return hasLanes(item) ? gatherLane(item, shards)
                        : gatherShards(*item.comm, shards, item.call.stream);
}

Result<void> spread(BatchItem& item, uint32_t) {
  return hasLanes(item) ? spreadParts(item) : Result<void>();
}

// NCCL launches a group's messages where it is closed, behind the codes.
Result<void> traceExchange(BatchItem& item, uint32_t chunk) {
  if (item.plan.exchanges()) beginMessages(item, TracedStage::exchange, chunk);
  return {};
}
Result<void> traceGather(BatchItem& item, uint32_t chunk) {
  if (item.plan.gathers()) beginMessages(item, TracedStage::gather, chunk);
  return {};
}

Result<void> open(BatchItem& item, uint32_t chunk) {
  return chunk == 0 ? openStages(item) : Result<void>();
}
// What is summed up first is coded later.
Result<void> encodeGiven(const Neighbours& items, uint32_t chunk) {
  return hasLanes(items.front()) && chunk == 0 ? Result<void>() : encodeStage(items, chunk);
}
Result<void> sum(BatchItem& item, uint32_t) {
  return hasLanes(item) ? sumStage(item) : Result<void>();
}
Result<void> encodeSum(const Neighbours& items, uint32_t chunk) {
  return hasLanes(items.front()) ? encodeStage(items, chunk) : Result<void>();
}
Result<void> traceInLane(BatchItem& item, uint32_t chunk) {
  return hasLanes(item) ? traceExchange(item, chunk) : Result<void>();
}

Result<void> settleLaunch(BatchItem& item) {
  return awaitLaunch(*item.comm);
}

auto nOf(const CommState* comm, std::span<const BatchItem> items) {
  return std::count_if(items.begin(), items.end(),
                       [&](const BatchItem& item) { return item.comm.get() == comm; });
}

std::vector<WorkspaceUse> usesOf(std::span<const BatchItem> items) {
  std::vector<WorkspaceNeed> needs;
  std::unordered_map<const Slot*, uint64_t> nOfSlot;
  for (const BatchItem& item : items) {
    const uint64_t nBytes = item.slot->roomBytes();
    // The workspace grows with time, and a rank may make its graph anew when the others do not: in
    // captures each call has a wave of its own. So has a call that is examined.
    const uint64_t capacity = item.captureId ? nBytes : item.comm->workspace.capacity();
    const bool isAlone = item.captureId == 0 && willBeExamined(item, nOfSlot[item.slot]++);
    needs.push_back({item.comm.get(), item.slot, isAlone ? capacity : nBytes, capacity});
  }
  return packWaves(needs);
}

}  // namespace

Batch::Batch(std::span<BatchItem> items, const RealNccl& real) : items_(items), real_(real) {
  for (BatchItem& item : items) item.isAlone = nOf(item.comm.get(), items) == 1;
  if (items.size() == 1) return;
  const std::vector<WorkspaceUse> uses = usesOf(items);
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].use = uses[i];
    nWaves_ = std::max(nWaves_, uses[i].wave + 1);
  }
}

Result<void> Batch::begin() {
  hasBegun_ = true;
  return each(0, beginCall);
}

Result<void> Batch::recordExchanges(ncclComm_t comm) {
  for (BatchItem& item : items_)
    if (item.comm->comm == comm && item.use.wave == 0) CINCH_TRY(exchange(item, 0));
  return {};
}

ncclResult_t Batch::run(bool isRecorded) {
  if (!hasBegun_)
    if (const auto begun = begin(); !begun.ok()) return fail(begun.error());
  for (uint32_t wave = 0; wave < nWaves_; ++wave) {
    const auto done = runWave(wave, isRecorded && wave == 0);
    if (!done.ok()) return fail(done.error());
  }
  return told_;
}

ncclResult_t Batch::fail(const Error& error) {
  ncclResult_t result = ncclInternalError;
  for (const BatchItem& item : items_) {
    joinStages(item);
    result = item.comm->fail(error);
  }
  return result;
}

Result<void> Batch::runWave(uint32_t wave, bool isRecorded) {
  if (wave > 0) CINCH_TRY(each(wave, beginCall));
  const uint32_t nChunks = mostChunks(wave);
  CINCH_TRY(exchangeAll(wave, 0, isRecorded));
  CINCH_TRY(each(wave, 0, sum));
  CINCH_TRY(together(wave, 0, encodeSum));
  CINCH_TRY(each(wave, 0, traceInLane));
  CINCH_TRY(groupOfLanes(wave, exchangeInLane));
  CINCH_TRY(each(wave, 0, noteInLane));
  for (uint32_t chunk = 0; chunk < nChunks; ++chunk) {
    if (chunk + 1 < nChunks) CINCH_TRY(exchangeAll(wave, chunk + 1, false));
    CINCH_TRY(together(wave, chunk, reduceStage));
    CINCH_TRY(gatherAll(wave, chunk));
    if (chunk > 0) CINCH_TRY(together(wave, chunk - 1, decodeStage));
  }
  CINCH_TRY(together(wave, nChunks - 1, decodeStage));
  CINCH_TRY(groupOfLanes(wave, spread));
  CINCH_TRY(each(wave, closeStages));
  return each(wave, endCall);
}

Result<void> Batch::exchangeAll(uint32_t wave, uint32_t chunk, bool isRecorded) {
  Result<void> done;
  if (!isRecorded) {
    CINCH_TRY_NCCL(real_.GroupStart(), "cannot open a group");
    done = each(wave, chunk, exchange);
  }
  // NCCL launches at the end of the group, so the codes may still be on their way when it records.
  if (done.ok()) done = each(wave, chunk, open);
  if (done.ok()) done = together(wave, chunk, encodeGiven);
  if (done.ok()) done = each(wave, chunk, traceExchange);
  CINCH_TRY(closeGroup(wave, done));
  return each(wave, chunk, noteExchange);
}

Result<void> Batch::groupOfLanes(uint32_t wave, ChunkStage messages) {
  const auto isOne = [&](const BatchItem& item) { return item.use.wave == wave && hasLanes(item); };
  if (std::none_of(items_.begin(), items_.end(), isOne)) return {};
  CINCH_TRY_NCCL(real_.GroupStart(), "cannot open a group");
  return closeGroup(wave, each(wave, 0, messages));
}

Result<void> Batch::gatherAll(uint32_t wave, uint32_t chunk) {
  if (!gathers(wave, chunk)) return {};
  CINCH_TRY(each(wave, chunk, traceGather));
  CINCH_TRY_NCCL(real_.GroupStart(), "cannot open a group");
  CINCH_TRY(closeGroup(wave, each(wave, chunk, gather)));
  return each(wave, chunk, noteGather);
}

// Whatever happened `before`, the group is closed: else all later calls would be recorded for ever.
Result<void> Batch::closeGroup(uint32_t wave, Result<void> before) {
  const ncclResult_t ended = real_.GroupEnd();
  CINCH_TRY(before);
  if (ended == ncclInProgress) {
    told_ = ncclInProgress;
    return each(wave, settleLaunch);
  }
  CINCH_TRY_NCCL(ended, "cannot end a group");
  return {};
}

Result<void> Batch::each(uint32_t wave, Stage stage) {
  for (BatchItem& item : items_)
    if (item.use.wave == wave) CINCH_TRY(stage(item));
  return {};
}

Result<void> Batch::each(uint32_t wave, uint32_t chunk, ChunkStage stage) {
  for (BatchItem& item : items_)
    if (item.use.wave == wave && chunk < item.plan.nChunks()) CINCH_TRY(stage(item, chunk));
  return {};
}

Result<void> Batch::together(uint32_t wave, uint32_t chunk, CodecStage stage) {
  Neighbours items;
  for (BatchItem& item : items_) {
    if (item.use.wave != wave || chunk >= item.plan.nChunks()) continue;
    if (!items.takes(item)) {
      CINCH_TRY(stage(items, chunk));
      items = {};
    }
    items.add(item);
  }
  return items.empty() ? Result<void>() : stage(items, chunk);
}

uint32_t Batch::mostChunks(uint32_t wave) const {
  uint32_t most = 1;
  for (const BatchItem& item : items_)
    if (item.use.wave == wave) most = std::max(most, item.plan.nChunks());
  return most;
}

bool Batch::gathers(uint32_t wave, uint32_t chunk) const {
  return std::any_of(items_.begin(), items_.end(), [&](const BatchItem& item) {
    return item.use.wave == wave && chunk < item.plan.nChunks() && item.plan.gathers();
  });
}

Result<void> awaitLaunch(const CommState& comm) {
  for (;;) {
    if (comm.isAbandoned()) return errorf(Status::remoteError, "the communicator was aborted");
    ncclResult_t state = ncclSuccess;
    CINCH_TRY_NCCL(comm.real.CommGetAsyncError(comm.comm, &state), "cannot ask for progress");
    if (state == ncclSuccess) return {};
    if (state != ncclInProgress) return ncclCallError("a launch failed", state);
    std::this_thread::sleep_for(kPollTime);
  }
}

}  // namespace cinch
