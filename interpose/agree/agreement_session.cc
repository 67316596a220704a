#include "interpose/agree/agreement_session.h"

#include <algorithm>
#include <utility>

namespace cinch {

AgreementSession AgreementSession::ofChild() {
  AgreementSession session({}, {});
  session.isChild_ = true;
  return session;
}

Result<size_t> AgreementSession::join(const Hello& hello, const IpAddress& from) {
  CINCH_TRY(admit(hello));
  Member member;
  member.hello = hello;
  member.from = from;
  members_.push_back(member);
  present_++;
  if (complete()) decide(judged());
  return members_.size() - 1;
}

Result<void> AgreementSession::admit(const Hello& hello) {
  if (hello.rank < 0 || hello.rank >= hello.nRanks || hello.nRanks > kMaxRanks) {
    return errorf(Status::invalidArgument, "there is no rank %d of %d", hello.rank, hello.nRanks);
  }
  auto same = [&](const Member& member) { return member.hello.rank == hello.rank; };
  auto twin = std::find_if(members_.begin(), members_.end(), same);
  if (twin != members_.end()) {
    conflict_ = rankOnHost(twin->hello) + " has greeted twice, the second time from host " +
                hello.host + ": give each rank its own number and each communicator its own id";
    return errorf(Status::invalidUsage, "%s", conflict_.c_str());
  }
  if (decided_) return errorf(Status::remoteError, "the other ranks have agreed without this one");
  return {};
}

bool AgreementSession::allReported() const {
  auto done = [](const Member& member) { return member.reported || member.left; };
  return std::all_of(members_.begin(), members_.end(), done);
}

Result<void> AgreementSession::report(size_t who, const Initialised& report) {
  Member& member = members_[who];
  if (member.reported || isChild_) return errorf(Status::remoteError, "a report out of turn");
  member.reported = true;
  if (decided_) return {};
  member.own = report.own;
  member.peers = report.peers;
  reportsDue_ = std::min(reportsDue_, deadlineIn(reportTime_));
  if (allReported()) decide(judged());
  return {};
}

void AgreementSession::decide(const Verdict& verdict) {
  decided_ = true;
  broadcasts_.push_back(verdict);
  if (verdict.compress) gates_.emplace(members_.size());
  for (Member& member : members_) {
    member.own = {};
    member.peers = {};
  }
}

Result<void> AgreementSession::vote(size_t who, const Vote& vote) {
  if (!decided_) return errorf(Status::remoteError, "a vote before the verdict");
  if (topics_.count(vote.topic) == 0 && topics_.size() == kMaxOpenTopics) {
    return errorf(Status::remoteError, "more than %zu open votes", kMaxOpenTopics);
  }
  Topic& topic = topics_[vote.topic];
  topic.voted.resize(members_.size());
  if (topic.voted[who]) return errorf(Status::remoteError, "a second vote on one topic");
  topic.voted[who] = true;
  topic.votes++;
  topic.allYes = topic.allYes && vote.yes;
  settle(vote.topic);
  return {};
}

Result<void> AgreementSession::publish(size_t who, const Publication& publication) {
  if (!decided_ || members_[who].hello.rank != 0)
    return errorf(Status::remoteError, "a publication out of turn");
  broadcasts_.push_back(publication);
  return {};
}

Result<void> AgreementSession::pool(size_t who, const Figures& figures) {
  if (!decided_) return errorf(Status::remoteError, "figures before the verdict");
  if (pools_.count(figures.topic) == 0 && pools_.size() == kMaxOpenPools)
    return errorf(Status::remoteError, "more than %zu open pools", kMaxOpenPools);
  OpenPool& pool = pools_[figures.topic];
  if (pool.nGiven == 0) pool.due = deadlineIn(kPoolTime);
  if (pool.given.empty()) pool.least.assign(figures.values.size(), kNoFigure);
  pool.given.resize(members_.size());
  if (pool.given[who] || pool.least.size() != figures.values.size())
    return errorf(Status::remoteError, "figures out of turn");
  pool.given[who] = true;
  pool.nGiven++;
  for (size_t i = 0; i < pool.least.size(); ++i)
    pool.least[i] = std::min(pool.least[i], figures.values[i]);
  settlePool(figures.topic);
  return {};
}

void AgreementSession::settlePool(uint64_t topic) {
  const auto found = pools_.find(topic);
  OpenPool& pool = found->second;
  if (pool.nGiven < present_) return;
  if (present_ < members_.size()) pool.least.clear();
  if (!pool.isOver) tellPool(topic, pool);
  pools_.erase(found);
}

void AgreementSession::tellPool(uint64_t topic, OpenPool& pool) {
  broadcasts_.push_back(Pool{topic, std::move(pool.least)});
  pool.isOver = true;
}

Deadline AgreementSession::poolsDue() const {
  Deadline due = kNoDeadline;
  for (const auto& [topic, pool] : pools_)
    if (!pool.isOver) due = std::min(due, pool.due);
  return due;
}

void AgreementSession::expire() {
  if (!decided_) return decide(judged());
  for (auto& [topic, pool] : pools_) {
    if (pool.isOver || Clock::now() < pool.due) continue;
    const size_t nFigures = pool.least.size();
    pool.least.clear();
    tellPool(topic, pool);
    pool.least.resize(nFigures);
  }
}

Result<void> AgreementSession::proposeClosing(const CloseProposal& proposal) {
  if (!decided_) return errorf(Status::remoteError, "a gate to close before the verdict");
  if (!gates_) {
    broadcasts_.push_back(GateNotClosed{proposal.topic, proposal.ordinal, kNeverCloses});
    return {};
  }
  gates_->propose(proposal, present_ == members_.size(), broadcasts_);
  return {};
}

Result<void> AgreementSession::closePrepared(size_t who, const ClosePrepared& answer) {
  if (!gates_) return errorf(Status::remoteError, "an answer that nobody has asked for");
  return gates_->prepared(who, answer, broadcasts_);
}

void AgreementSession::settle(uint64_t number) {
  auto topic = topics_.find(number);
  if (topic->second.votes < present_) return;
  bool complete = present_ == members_.size();
  broadcasts_.push_back(Outcome{number, complete && topic->second.allYes});
  topics_.erase(topic);
}

void AgreementSession::leave(size_t who) {
  const bool mayHavePublished = decided_ && members_[who].hello.rank == 0;
  members_[who].left = true;
  present_--;
  if (!decided_ && isChild_) {
    // It may have stopped waiting and gone on without compression: so must all, those to come too.
    decide({false, leftTooEarly(members_[who].hello), {}});
  } else if (!decided_ && reportsDue_ != kNoDeadline && allReported()) {
    decide(judged());  // this member's report was all that was waited for
  }
  if (gates_) gates_->giveUp(broadcasts_);
  if (mayHavePublished && present_ > 0) broadcasts_.push_back(PublisherLeft{});
  std::vector<uint64_t> open;
  for (auto& [number, topic] : topics_) {
    if (topic.voted[who]) topic.votes--;
    open.push_back(number);
  }
  for (uint64_t number : open) settle(number);
  open.clear();
  for (auto& [number, pool] : pools_) {
    if (pool.given[who]) pool.nGiven--;
    if (pool.nGiven > 0) open.push_back(number);
  }
  std::erase_if(pools_, [](const auto& entry) { return entry.second.nGiven == 0; });
  for (uint64_t number : open) settlePool(number);
}

std::vector<Message> AgreementSession::takeBroadcasts() {
  return std::exchange(broadcasts_, {});
}

}  // namespace cinch
