#include "interpose/entry/entry.h"

namespace cinch {

thread_local int EntryGuard::depth_ = 0;

}  // namespace cinch

using namespace cinch;

CINCH_EXPORT ncclResult_t ncclGroupStart() {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  const ncclResult_t result = CINCH_FORWARD(real, GroupStart);
  if (guard.outermost() && result == ncclSuccess) OpenGroup::start(*real);
  return result;
}

CINCH_EXPORT ncclResult_t ncclGroupEnd() {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return guard.outermost() && real != nullptr ? OpenGroup::end(*real)
                                              : CINCH_FORWARD(real, GroupEnd);
}

CINCH_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  if (guard.outermost() && real != nullptr) OpenGroup::forget(*real);
  return CINCH_FORWARD(real, GroupSimulateEnd, info);
}
