#include "interpose/agree/open_votes.h"

#include <utility>

namespace cinch {

Result<void> OpenVotes::add(size_t who, bool isRankZero, const Vote& vote, Attendance now,
                            std::vector<Decision>& out) {
  if (topics_.count(vote.topic) == 0 && topics_.size() == kMaxOpenTopics)
    return errorf(Status::remoteError, "more than %zu open votes", kMaxOpenTopics);
  Topic& topic = topics_[vote.topic];
  topic.voted.resize(now.nMembers);
  if (topic.voted[who]) return errorf(Status::remoteError, "a second vote on one topic");
  topic.voted[who] = true;
  topic.votes++;
  topic.allYes = topic.allYes && vote.yes;
  if (isRankZero) topic.bytes = vote.bytes;
  if (topic.votes < now.present) return {};
  if (!topic.isMissed) {
    Decision outcome{vote.topic, {static_cast<uint8_t>(topic.allYes ? 1 : 0)}};
    outcome.bytes.insert(outcome.bytes.end(), topic.bytes.begin(), topic.bytes.end());
    out.push_back(std::move(outcome));
  }
  topics_.erase(vote.topic);
  return {};
}

// The topic stays until all have voted: who comes later is not the first to vote on a new one.
Result<bool> OpenVotes::retract(size_t who, const Retraction& retraction) {
  const auto found = topics_.find(retraction.topic);
  if (found == topics_.end() || found->second.isMissed) return false;  // it has been decided
  if (!found->second.voted[who])
    return errorf(Status::remoteError, "it takes back a vote that it has not given");
  found->second.isMissed = true;
  return true;
}

}  // namespace cinch
