// Point-to-point calls always pass, and do not enter the sequence: they are one rank's own affair.
#include "interpose/comm/report_writer.h"
#include "interpose/entry/entry.h"
#include "interpose/execute/logged_call.h"

namespace cinch {
namespace {

// All ways to make a communicator are followed: NCCL will not know another one either.
bool isSound(const CommState* comm, const Message& message) {
  return comm != nullptr && (message.buffer != nullptr || message.count == 0) &&
         bytesOf(message.type) != 0 && message.peer >= 0 && message.peer < comm->nRanks;
}

// `forward` calls the real function with copies of the caller's arguments.
template <class Forward>
ncclResult_t intercept(const EntryGuard& guard, const RealNccl* real, ncclComm_t comm,
                       const Message& message, const Forward& forward) {
  const Pass pass(forward);
  if (!guard.outermost() || real == nullptr) return pass();
  const auto state = followed(guard, comm);
  const uint64_t nBytes = message.count * bytesOf(message.type);
  OpenGroup* group = OpenGroup::of(*real);
  const auto forwarded = [&] {
    if (group == nullptr) return pass();
    return group->pass({.comm = comm, .isSound = isSound(state.get(), message)}, pass);
  };
  if (state == nullptr) {
    countOther(nBytes);
    return forwarded();
  }
  state->countPass(Reason::kind, nBytes);
  const LoggedCall logged(CallLog::instance(), *state, message);
  return logged.end(forwarded(), Reason::kind);
}

}  // namespace
}  // namespace cinch

using namespace cinch;

CINCH_EXPORT ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                                   ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return intercept(guard, real, comm, {send, count, type, peer, stream, true}, [=] {
    return CINCH_FORWARD(real, Send, send, count, type, peer, comm, stream);
  });
}

CINCH_EXPORT ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer,
                                   ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return intercept(guard, real, comm, {recv, count, type, peer, stream, false}, [=] {
    return CINCH_FORWARD(real, Recv, recv, count, type, peer, comm, stream);
  });
}
