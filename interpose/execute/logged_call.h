// One call of the program's in the log of CINCH_CALL_LOG. Nothing of it has an effect on what calls
// do.
#pragma once

#include "interpose/comm/call_log.h"
#include "interpose/comm/comm_state.h"
#include "interpose/execute/collective.h"

namespace cinch {

// A Send or a Recv.
struct Message {
  const void* buffer;
  size_t count;
  ncclDataType_t type;
  int peer;
  CUstream_st* stream;
  bool isSent;
};

class LoggedCall {
 public:
  // It is about to be made. Does nothing where `log` is null.
  LoggedCall(CallLog* log, const CommState& comm, const Collective& call);
  LoggedCall(CallLog* log, const CommState& comm, const Message& message);

  // It was made, and passed for `reason` unless that is Reason::none. Returns `result`.
  ncclResult_t end(ncclResult_t result, Reason reason) const;

 private:
  CallLog* const log_;
  CallLog::Handle entry_;
};

}  // namespace cinch
