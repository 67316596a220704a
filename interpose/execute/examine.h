// Before the calls of a site are compressed, the ranks find out whether they reduce gradients
// (comm/step_exam.h): three calls pass and are measured, every rank votes, and the outcome is
// awaited at the fourth. Rank 0 needs sufficient evidence; any other rank may veto.
#pragma once

#include <memory>

#include "interpose/comm/comm_state.h"
#include "interpose/execute/collective.h"

namespace cinch {

// Before a call of the site that `decision` names: Reason::none where it is known to reduce
// gradients, Reason::preparing while that is being found out, else why it passes. An error means
// that the communicator cannot be used.
Result<Reason> awaitExam(const std::shared_ptr<CommState>& comm,
                         const CommState::Decision& decision);

// Before a call that all ranks are ready to compress: Reason::none where it may be. The ranks stop
// before the same call where one of them sees what contradicts the exam; this waits only while that
// is being agreed. An error as above.
Result<Reason> passGate(const CommState& comm, const CommState::Decision& decision);

// The gate that has counted the call then; null where there is none.
CallGate* gateOf(const CommState::Decision& decision);

// Whether a call passes while its site is being measured, or gets ready.
bool isMeasured(const CommState::Decision& decision);
// Around such a call. Where its position in the step was not known, the ranks vote when it is.
void beginMeasured(const CommState& comm, const CommState::Decision& decision,
                   const Collective& call);
void endMeasured(const std::shared_ptr<CommState>& comm, const SiteExam& exam,
                 const Collective& call, bool wasPlaced);

// Around the exact reduction of a call that is compressed and examined besides: values that speak
// against gradients close the gate of its site some calls later.
void beginAudit(const CommState& comm, const SiteExam& exam, const Collective& call);
void endAudit(const std::shared_ptr<CommState>& comm, const SiteExam& exam, const Collective& call,
              const void* exact_dev);

}  // namespace cinch
