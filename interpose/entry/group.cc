#include "interpose/comm/call_log.h"
#include "interpose/entry/entry.h"

namespace cinch {

thread_local int EntryGuard::depth_ = 0;

}  // namespace cinch

using namespace cinch;

CINCH_EXPORT ncclResult_t ncclGroupStart() {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  if (!guard.outermost() || real == nullptr) return CINCH_FORWARD(real, GroupStart);
  const ncclResult_t result = OpenGroup::start(*real);
  if (result != ncclSuccess) return result;
  if (CallLog* const log = CallLog::instance()) log->groupStart();
  return result;
}

CINCH_EXPORT ncclResult_t ncclGroupEnd() {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  if (!guard.outermost() || real == nullptr) return CINCH_FORWARD(real, GroupEnd);
  const ncclResult_t result = OpenGroup::end(*real);
  if (CallLog* const log = CallLog::instance()) log->groupEnd(result);
  return result;
}

CINCH_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  if (guard.outermost() && real != nullptr) {
    OpenGroup::forget(*real);
    // Readers of the log leave out what has failed, and these calls were not made.
    if (CallLog* const log = CallLog::instance()) log->groupEnd(ncclInvalidUsage);
  }
  return CINCH_FORWARD(real, GroupSimulateEnd, info);
}
