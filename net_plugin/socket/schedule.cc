#include "net_plugin/socket/schedule.h"

#include <algorithm>
#include <limits>

namespace cinch::net {
namespace {

// Below this an estimate is noise, and skipping costs more than it saves.
constexpr double kAlwaysInTime = 0.002;
// A chunk is late where another flow would have it there in less than half of the time left.
constexpr double kLateness = 2;
constexpr double kMinLateness = 0.004;
// What a flow takes at one go is with its peer after this, or what is said meanwhile would wait.
constexpr double kMoment = 0.001;
constexpr double kNever = std::numeric_limits<double>::infinity();

double secondsFor(const FlowView& flow, uint64_t more) {
  if (flow.isSick) return kNever;
  return flow.bytesPerSecond == 0 ? 0 : (flow.queued + more) / flow.bytesPerSecond;
}

// When the other flows together would be through with the backlog; never where all are sick.
double secondsOfOthers(std::span<const FlowView> flows, size_t self, uint64_t backlog) {
  double rate = 0;
  double bytes = backlog;
  for (size_t i = 0; i < flows.size(); ++i) {
    if (i == self || flows[i].isSick) continue;
    if (flows[i].bytesPerSecond == 0) return 0;
    rate += flows[i].bytesPerSecond;
    bytes += flows[i].queued;
  }
  return rate == 0 ? kNever : bytes / rate;
}

// When the soonest of the others would be through with this chunk alone.
double secondsOfSoonest(std::span<const FlowView> flows, size_t self, uint64_t chunk) {
  double soonest = kNever;
  for (size_t i = 0; i < flows.size(); ++i) {
    if (i != self) soonest = std::min(soonest, secondsFor(flows[i], chunk));
  }
  return soonest;
}

}  // namespace

bool takesChunk(std::span<const FlowView> flows, size_t self, uint64_t chunk, uint64_t backlog) {
  const double mine = secondsFor(flows[self], chunk);
  return mine <= kAlwaysInTime || mine <= secondsOfOthers(flows, self, backlog) ||
         mine <= secondsOfSoonest(flows, self, chunk);
}

uint64_t bytesAtOnce(std::span<const FlowView> flows, size_t self, uint64_t backlog) {
  const FlowView& flow = flows[self];
  if (flow.isSick) return 0;
  const double rate = flow.bytesPerSecond > 0 ? flow.bytesPerSecond : flow.seenBytesPerSecond;
  const double inAMoment = rate * kMoment - static_cast<double>(flow.queued);
  const auto nWell = std::count_if(flows.begin(), flows.end(), [](auto& it) { return !it.isSick; });
  const double share = static_cast<double>(backlog) / static_cast<double>(nWell);
  const double bytes = std::clamp(std::min(share, inAMoment), 0.0, double{kMostAtOnce});
  return static_cast<uint64_t>(bytes);
}

int latestFlow(std::span<const FlowView> flows, size_t self, uint64_t chunk) {
  const double mine = secondsFor(flows[self], chunk);
  int latest = -1;
  double worst = std::max(kLateness * mine, kMinLateness);
  for (size_t i = 0; i < flows.size(); ++i) {
    if (i == self || flows[i].queued == 0) continue;
    const double left = secondsFor(flows[i], 0);
    if (left <= worst) continue;
    latest = static_cast<int>(i);
    worst = left;
  }
  return latest;
}

}  // namespace cinch::net
