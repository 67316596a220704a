#include "interpose/agree/figure_pools.h"

#include <algorithm>
#include <utility>

#include "common/byte_order.h"

namespace cinch {

Result<void> FigurePools::add(size_t who, const Figures& figures, Attendance now,
                              std::vector<Decision>& out) {
  if (pools_.count(figures.topic) == 0 && pools_.size() == kMaxOpenPools)
    return errorf(Status::remoteError, "more than %zu open pools", kMaxOpenPools);
  Open& pool = pools_[figures.topic];
  if (pool.nGiven == 0) pool.due = deadlineIn(kPoolTime);
  if (pool.given.empty()) pool.least.assign(figures.values.size(), kNoFigure);
  pool.given.resize(now.nMembers);
  if (pool.given[who] || pool.least.size() != figures.values.size())
    return errorf(Status::remoteError, "figures out of turn");
  pool.given[who] = true;
  pool.nGiven++;
  for (size_t i = 0; i < pool.least.size(); ++i)
    pool.least[i] = std::min(pool.least[i], figures.values[i]);
  settle(figures.topic, now, out);
  return {};
}

void FigurePools::settle(uint64_t topic, Attendance now, std::vector<Decision>& out) {
  const auto found = pools_.find(topic);
  Open& pool = found->second;
  if (pool.nGiven < now.present) return;
  if (now.present < now.nMembers) pool.least.clear();
  if (!pool.isOver) tell(topic, pool, out);
  pools_.erase(found);
}

void FigurePools::tell(uint64_t topic, Open& pool, std::vector<Decision>& out) {
  Decision decision{topic, Bytes(pool.least.size() * sizeof(uint64_t))};
  for (size_t i = 0; i < pool.least.size(); ++i)
    storeLittle(pool.least[i], &decision.bytes[i * sizeof(uint64_t)]);
  out.push_back(std::move(decision));
  pool.isOver = true;
}

Deadline FigurePools::due() const {
  Deadline due = kNoDeadline;
  for (const auto& [topic, pool] : pools_)
    if (!pool.isOver) due = std::min(due, pool.due);
  return due;
}

void FigurePools::expire(std::vector<Decision>& out) {
  for (auto& [topic, pool] : pools_) {
    if (pool.isOver || Clock::now() < pool.due) continue;
    const size_t nFigures = pool.least.size();
    pool.least.clear();
    tell(topic, pool, out);
    pool.least.resize(nFigures);
  }
}

void FigurePools::leave(size_t who, Attendance now, std::vector<Decision>& out) {
  std::vector<uint64_t> open;
  for (auto& [topic, pool] : pools_) {
    if (pool.given[who]) pool.nGiven--;
    if (pool.nGiven > 0) open.push_back(topic);
  }
  std::erase_if(pools_, [](const auto& entry) { return entry.second.nGiven == 0; });
  for (const uint64_t topic : open) settle(topic, now, out);
}

}  // namespace cinch
