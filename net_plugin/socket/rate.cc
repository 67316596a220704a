#include "net_plugin/socket/rate.h"

#include <algorithm>

namespace cinch::net {
namespace {

// Long enough for several acknowledgements, short enough to notice a change within a message.
constexpr auto kInterval = std::chrono::milliseconds(4);
constexpr double kWeight = 0.3;  // of the newest interval

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void FlowRate::restart(Clock::time_point now, uint64_t acknowledged) {
  intervalStart_ = now;
  intervalBase_ = acknowledged;
  ranEmpty_ = false;
}

void FlowRate::sample(Clock::time_point now, uint64_t written, uint64_t queued) {
  const uint64_t acknowledged = std::max(acknowledged_, written - std::min(queued, written));
  const bool idle = queued_ == 0 && queued == 0 && acknowledged == acknowledged_;
  if (!started_ || queued_ == 0 || acknowledged > acknowledged_) lastProgress_ = now;
  if (!started_ || idle) restart(now, acknowledged);
  started_ = true;
  queued_ = queued;
  acknowledged_ = acknowledged;
  ranEmpty_ = ranEmpty_ || queued == 0;
  if (now - intervalStart_ < kInterval) return;
  const double seen = (acknowledged - intervalBase_) / seconds(now - intervalStart_);
  seen_ = seen;
  if (!ranEmpty_) {
    rate_ = rate_ == 0 ? seen : rate_ + kWeight * (seen - rate_);
  } else if (rate_ > 0) {
    rate_ = std::max(rate_, seen);  // it could have carried more, nobody knows how much
  }
  restart(now, acknowledged);
}

bool FlowRate::isStalled(Clock::time_point now, Clock::duration patience) const {
  return started_ && queued_ > 0 && now - lastProgress_ > patience;
}

}  // namespace cinch::net
