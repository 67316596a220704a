#include "emulator/nccl/plan_run.h"

namespace cinch::emulator {

PlanRun::PlanRun(const Plan& plan, Connections& connections) {
  for (const Operation& operation : plan.operations()) add(operation, connections);
}

void PlanRun::add(const Operation& operation, Connections& connections) {
  LaneKey key{LaneKind::ring, -1};
  ReceiveChannel* in = connections.ringIn();
  SendChannel* out = connections.ringOut();
  if (operation.kind == Kind::send) {
    key = {LaneKind::send, operation.peer};
    out = &connections.sendTo(operation.peer);
  } else if (operation.kind == Kind::receive) {
    key = {LaneKind::receive, operation.peer};
    in = &connections.receiveFrom(operation.peer);
  } else if (operation.kind == Kind::copy) {
    key = {LaneKind::local, -1};
  }
  lanes_[key].emplace_back(operation, connections.rank(), connections.nRanks(), in, out);
}

Result<bool> PlanRun::advance() {
  bool moved = false;
  for (auto it = lanes_.begin(); it != lanes_.end();) {
    Lane& lane = it->second;
    const Result<bool> advanced = lane.front().advance();
    if (!advanced) return advanced;
    moved = moved || advanced.value();
    if (lane.front().isDone()) {
      lane.pop_front();
      moved = true;
    }
    it = lane.empty() ? lanes_.erase(it) : std::next(it);
  }
  return moved;
}

void PlanRun::addPollTargets(std::vector<pollfd>* targets) const {
  for (const auto& [key, lane] : lanes_) {
    const Pipeline& current = lane.front();
    if (current.in() != nullptr) current.in()->addPollTarget(targets);
    if (current.out() != nullptr) current.out()->addPollTarget(targets);
  }
}

}  // namespace cinch::emulator
