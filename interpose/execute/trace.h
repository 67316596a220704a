// Which calls are traced (CINCH_TRACE), and where their stages begin and end. Nothing of it has an
// effect on what calls do: what cannot be traced is left out.
#pragma once

#include "interpose/execute/neighbours.h"

namespace cinch {

// The communicator's first slot is getting ready. Not on the call path; the device is current and
// the capture mode relaxed.
void allocateTracer(CommState& comm);

// Around all that a call enqueues; the device is current. Captured calls are not traced.
void beginTrace(BatchItem& item);
void endTrace(BatchItem& item);
// The call failed in between.
void dropTrace(const BatchItem& item);

// Around the messages of a chunk, on the caller's stream.
void beginMessages(const BatchItem& item, TracedStage stage, uint32_t chunk);
void endMessages(const BatchItem& item, TracedStage stage, uint32_t chunk);

// A stage of the codec, on `stream`, for as long as it lives. Each of the calls is taken to need
// as long as all together.
class CodecTrace {
 public:
  CodecTrace(const Neighbours& items, TracedStage stage, uint32_t chunk, void* stream);
  ~CodecTrace();
  CodecTrace(const CodecTrace&) = delete;

 private:
  const Neighbours& items_;
  const TracedStage stage_;
  const uint32_t chunk_;
  void* const stream_;
};

}  // namespace cinch
