// The execution of one plan: its operations, ordered as their channels demand.
#pragma once

#include <poll.h>

#include <deque>
#include <map>
#include <vector>

#include "emulator/nccl/connections.h"
#include "emulator/nccl/pipeline.h"
#include "emulator/nccl/plan.h"

namespace cinch::emulator {

// Collectives run one after another, since they share the ring; so do the sends to one peer and the
// receives from one peer. Everything else runs side by side.
class PlanRun {
 public:
  PlanRun(const Plan& plan, Connections& connections);

  // Does what can be done now; true where anything moved.
  Result<bool> advance();
  bool isDone() const { return lanes_.empty(); }

  // Appends what to sleep on until something can move; nothing where the transport cannot tell.
  void addPollTargets(std::vector<pollfd>* targets) const;

 private:
  using Lane = std::deque<Pipeline>;
  enum class LaneKind { ring, local, send, receive };
  using LaneKey = std::pair<LaneKind, int>;  // and the peer

  void add(const Operation& operation, Connections& connections);

  std::map<LaneKey, Lane> lanes_;  // those that have work left
};

}  // namespace cinch::emulator
