// The end of a communicator, and questions about its health.
#include "interpose/comm/call_log.h"
#include "interpose/comm/family.h"
#include "interpose/comm/memory_reserve.h"
#include "interpose/comm/report_writer.h"
#include "interpose/entry/entry.h"

namespace cinch {
namespace {

std::shared_ptr<CommState> take(const EntryGuard& guard, ncclComm_t comm) {
  return guard.outermost() ? Registry::instance().take(comm) : nullptr;
}

}  // namespace
}  // namespace cinch

using namespace cinch;

CINCH_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const EntryGuard guard;
  if (const auto state = followed(guard, comm)) state->finish();
  return CINCH_FORWARD(CINCH_REAL(), CommFinalize, comm);
}

CINCH_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const EntryGuard guard;
  auto state = take(guard, comm);
  if (state != nullptr) state->finish();
  if (CallLog* const log = state != nullptr ? CallLog::instance() : nullptr) log->collect();
  const ncclResult_t result = CINCH_FORWARD(CINCH_REAL(), CommDestroy, comm);
  state.reset();  // takes the last figures
  if (guard.outermost() && Registry::instance().empty()) MemoryReserve::instance().release();
  if (guard.outermost()) writeReport();
  return result;
}

CINCH_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const EntryGuard guard;
  // Its end touches CUDA, which may be stuck in just what the abort will end: last of all.
  const auto state = take(guard, comm);
  if (state != nullptr) state->abandon();
  const ncclResult_t result = CINCH_FORWARD(CINCH_REAL(), CommAbort, comm);
  if (guard.outermost()) writeReport();
  return result;
}

// NCCL refuses all further communication: there is nothing left to follow.
CINCH_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  const EntryGuard guard;
  const auto state = take(guard, comm);
  if (state != nullptr) state->abandon();
  return CINCH_FORWARD(CINCH_REAL(), CommRevoke, comm, flags);
}

CINCH_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const EntryGuard guard;
  const ncclResult_t result = CINCH_FORWARD(CINCH_REAL(), CommGetAsyncError, comm, error);
  const auto state = followed(guard, comm);
  if (result != ncclSuccess || error == nullptr || state == nullptr) return result;
  if (!followAwaited(*state, *error) && *error == ncclSuccess) *error = ncclInProgress;
  if (*error == ncclSuccess) *error = state->health();
  return result;
}
