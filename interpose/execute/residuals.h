// When memory for residuals is taken and given back. With CINCH_WHEN=always a slot has its own from
// when it gets ready; else those of a step have theirs from when full is first tried until it has
// lost (policy/selector/selector.h).
#pragma once

#include "interpose/comm/comm_state.h"

namespace cinch {

// For both: `only` is the slot that is meant; null: those of the steps.

// Takes memory for the residuals that `question` is about, beside those that are `held`, and tells
// the other ranks whether all is there. What else there is is given back behind `stream`.
Result<void> askForResiduals(CommState& comm, const Selector::Residuals& held,
                             const ResidualQuestion& question, Slot* only, void* stream);
// No call that was made, or is under way, uses them any more.
Result<void> giveResidualsBack(CommState& comm, Slot* only, void* stream);

// `slot` gets ready: takes its residuals, where no question is asked.
Result<void> takeResidualsToBegin(CommState& comm, Slot& slot, void* stream);

}  // namespace cinch
