// Before the calls of a site are compressed, the ranks find out whether they reduce gradients
// (comm/step_exam.h): three calls pass and are measured, every rank votes, and the outcome is in
// force from the same later call on. Rank 0 needs sufficient evidence; any other rank may veto.
#pragma once

#include <memory>

#include "interpose/comm/comm_state.h"
#include "interpose/execute/collective.h"

namespace cinch {

// Every numbered call begins so: it gets its number, the same on all ranks, and whatever has been
// decided from it on is in force. Where this rank sees what contradicts the site's exam, the ranks
// settle first whether all of them stop compressing it before this call: that waits for control
// threads, as CommDecisions::claim() may. An error means that the communicator cannot be used.
Result<void> beginNumbered(CommState& comm, const Signature& signature,
                           CommState::Decision& decision);

// Of a call of the site that `decision` names: Reason::none where it is known to reduce gradients,
// Reason::preparing while that is being found out, else why it passes. An error as above.
Result<Reason> examineSite(const std::shared_ptr<CommState>& comm,
                           const CommState::Decision& decision);

// Whether a call passes while its site is being measured, or gets ready.
bool isMeasured(const CommState::Decision& decision);
// Around such a call. Where its position in the step was not known, the ranks vote when it is.
void beginMeasured(const CommState& comm, const CommState::Decision& decision,
                   const Collective& call);
void endMeasured(const std::shared_ptr<CommState>& comm, const SiteExam& exam,
                 const Collective& call, bool wasPlaced);

// Around the exact reduction of a call that is compressed and examined besides: where values speak
// against gradients, the ranks stop compressing the site some calls later.
void beginAudit(const CommState& comm, const SiteExam& exam, const Collective& call);
void endAudit(const std::shared_ptr<CommState>& comm, const SiteExam& exam, const Collective& call,
              const void* exact_dev);

}  // namespace cinch
