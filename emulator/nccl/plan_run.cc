#include "emulator/nccl/plan_run.h"

namespace cinch::emulator {
namespace {

bool addTarget(const Channel* channel, std::vector<pollfd>* targets) {
  if (channel == nullptr || !channel->isWaiting()) return true;
  pollfd target;
  if (!channel->pollTarget(&target)) return false;
  targets->push_back(target);
  return true;
}

}  // namespace

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

Result<void> PlanRun::findDeserted(const Connections& connections) const {
  for (const auto& [key, lane] : lanes_) {
    ReceiveChannel* in = key.first == LaneKind::receive ? lane.front().in() : nullptr;
    if (in == nullptr || in->isOpen() || !connections.hasLeft(in->peer())) continue;
    // It may have connected, sent and ended in good order.
    const Result<bool> accepted = in->progress();
    if (!accepted) return accepted.error();
    if (!in->isOpen())
      return errorf(Status::remoteError, "rank %d waits for rank %d, whose process has exited",
                    connections.rank(), in->peer());
  }
  return {};
}

bool PlanRun::addPollTargets(std::vector<pollfd>* targets) const {
  bool complete = true;
  for (const auto& [key, lane] : lanes_) {
    complete &= addTarget(lane.front().in(), targets);
    complete &= addTarget(lane.front().out(), targets);
  }
  return complete;
}

}  // namespace cinch::emulator
