// How a rank that is in doubt learns what the others have decided (docs/agreement.md, "In doubt").
#pragma once

#include <cstdint>
#include <functional>

#include "common/network/ip_address.h"
#include "interpose/agree/agreement_wire.h"

namespace cinch {

// Asks the server at `server`, again and again until it can be reached, what came of `round`, which
// the rank of that hello had accepted. Commit or Withdraw; Rejected where it cannot be known: the
// server says so, it cannot be reached for half an hour, nobody listens there any more, or
// isWanted() has become false. Waits: for a thread of its own.
Message askForOutcome(const Endpoint& server, const HelloMessage& from, uint64_t round,
                      const std::function<bool()>& isWanted);

}  // namespace cinch
