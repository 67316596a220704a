#include "interpose/execute/batch.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <unordered_map>
#include <vector>

#include "interpose/execute/checkup.h"
#include "interpose/execute/exchange.h"
#include "interpose/execute/stages.h"
#include "interpose/real/nccl_try.h"

namespace cinch {
namespace {

constexpr std::chrono::microseconds kPollTime{20};

Result<void> exchange(BatchItem& item) {
  CINCH_TRY(reduceExactly(item));
  return item.plan.exchanges() ? exchangeShards(*item.comm, shardsOf(item), item.call.stream)
                               : Result<void>();
}

Result<void> gather(BatchItem& item) {
  return item.plan.gathers() ? gatherShards(*item.comm, shardsOf(item), item.call.stream)
                             : Result<void>();
}

Result<void> settleLaunch(BatchItem& item) {
  return awaitLaunch(*item.comm);
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
    if (item.comm->comm == comm && item.use.wave == 0) CINCH_TRY(exchange(item));
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
  for (const BatchItem& item : items_) result = item.comm->fail(error);
  return result;
}

Result<void> Batch::runWave(uint32_t wave, bool isRecorded) {
  if (wave > 0) CINCH_TRY(each(wave, beginCall));
  CINCH_TRY(exchangeAll(wave, isRecorded));
  CINCH_TRY(each(wave, reduceStage));
  CINCH_TRY(gatherAll(wave));
  CINCH_TRY(each(wave, decodeStage));
  return each(wave, endCall);
}

Result<void> Batch::exchangeAll(uint32_t wave, bool isRecorded) {
  Result<void> done;
  if (!isRecorded) {
    CINCH_TRY_NCCL(real_.GroupStart(), "cannot open a group");
    done = each(wave, exchange);
  }
  // NCCL launches at the end of the group, so the codes may still be on their way when it records.
  if (done.ok()) done = each(wave, encodeStage);
  return closeGroup(wave, done);
}

Result<void> Batch::gatherAll(uint32_t wave) {
  if (!gathers(wave)) return {};
  CINCH_TRY_NCCL(real_.GroupStart(), "cannot open a group");
  return closeGroup(wave, each(wave, gather));
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

bool Batch::gathers(uint32_t wave) const {
  return std::any_of(items_.begin(), items_.end(), [&](const BatchItem& item) {
    return item.use.wave == wave && item.plan.gathers();
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
