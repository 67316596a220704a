#include "interpose/agree/agreement_session.h"

#include <algorithm>
#include <utility>

namespace cinch {
namespace {

bool allReported(const std::vector<Member>& members) {
  const auto isDone = [](const Member& member) { return member.reported || member.left; };
  return std::all_of(members.begin(), members.end(), isDone);
}

}  // namespace

AgreementSession AgreementSession::ofChild() {
  AgreementSession session({}, {});
  session.kind_ = Kind::ofChild;
  return session;
}

AgreementSession AgreementSession::takenOver(int nRanks, std::chrono::milliseconds arrivalTime) {
  AgreementSession session({}, {});
  session.kind_ = Kind::takenOver;
  session.arrivals_.time = arrivalTime;
  session.members_.resize(static_cast<size_t>(nRanks));
  for (int rank = 0; rank < nRanks; ++rank) {
    Member& member = session.members_[static_cast<size_t>(rank)];
    member.hello.rank = rank;
    member.hello.nRanks = nRanks;
    member.isAwaited = true;
  }
  session.present_ = session.arrivals_.nAwaited = session.members_.size();
  session.decided_ = true;
  session.rounds_.emplace(session.members_.size());
  return session;
}

Result<size_t> AgreementSession::arrive(const Hello& hello, const IpAddress& from) {
  const auto rank = static_cast<size_t>(hello.rank);
  if (hello.rank < 0 || rank >= members_.size() || hello.nRanks != members_[rank].hello.nRanks)
    return errorf(Status::invalidArgument, "there is no rank %d of %d", hello.rank, hello.nRanks);
  Member& member = members_[rank];
  if (member.left)
    return errorf(Status::remoteError, "the other ranks have gone on without this one");
  if (!member.isAwaited)
    return errorf(Status::invalidUsage, "%s has greeted twice", rankOnHost(member.hello).c_str());
  member.hello = hello;
  member.from = from;
  member.isAwaited = false;
  if (arrivals_.due == kNoDeadline) arrivals_.due = deadlineIn(arrivals_.time);
  if (--arrivals_.nAwaited == 0) arrivals_.due = kNoDeadline;
  if (rounds_->isOver()) rounds_->giveUp(broadcasts_);  // it has not been told
  return rank;
}

Result<size_t> AgreementSession::join(const Hello& hello, const IpAddress& from) {
  if (kind_ == Kind::takenOver) return arrive(hello, from);
  CINCH_TRY(admit(hello));
  Member member;
  member.hello = hello;
  member.from = from;
  members_.push_back(member);
  admitted_.ranks[static_cast<size_t>(hello.rank)] = true;
  present_++;
  if (complete()) decide(judged());
  return members_.size() - 1;
}

Result<void> AgreementSession::admit(const Hello& hello) {
  if (hello.rank < 0 || hello.rank >= hello.nRanks || hello.nRanks > kMaxRanks) {
    return errorf(Status::invalidArgument, "there is no rank %d of %d", hello.rank, hello.nRanks);
  }
  const auto rank = static_cast<size_t>(hello.rank);
  if (rank >= admitted_.ranks.size()) admitted_.ranks.resize(static_cast<size_t>(hello.nRanks));
  if (admitted_.ranks[rank]) {
    const auto same = [&](const Member& member) { return member.hello.rank == hello.rank; };
    const auto twin = std::find_if(members_.begin(), members_.end(), same);
    admitted_.conflict = rankOnHost(twin->hello) +
                         " has greeted twice, the second time from host " + hello.host +
                         ": give each rank its own number and each communicator its own id";
    return errorf(Status::invalidUsage, "%s", admitted_.conflict.c_str());
  }
  if (decided_) return errorf(Status::remoteError, "the other ranks have agreed without this one");
  return {};
}

Result<void> AgreementSession::report(size_t who, const Initialised& report) {
  Member& member = members_[who];
  if (member.reported || kind_ != Kind::ofId)
    return errorf(Status::remoteError, "a report out of turn");
  member.reported = true;
  if (decided_) return {};
  member.own = report.own;
  member.peers = report.peers;
  reports_.due = std::min(reports_.due, deadlineIn(reports_.time));
  if (allReported(members_)) decide(judged());
  return {};
}

void AgreementSession::decide(const Verdict& verdict) {
  decided_ = true;
  broadcasts_.push_back(verdict);
  if (verdict.compress) rounds_.emplace(members_.size());
  for (Member& member : members_) {
    member.own = {};
    member.peers = {};
  }
}

Result<void> AgreementSession::vote(size_t who, const Vote& vote) {
  if (!decided_) return errorf(Status::remoteError, "a vote before the verdict");
  if (!rounds_ || rounds_->isOver()) return {};  // nothing can come of it
  std::vector<Decision> outcomes;
  const bool isRankZero = members_[who].hello.rank == 0;
  CINCH_TRY(votes_.add(who, isRankZero, vote, {members_.size(), present_}, outcomes));
  return decideAll(std::move(outcomes));
}

Result<void> AgreementSession::retract(size_t who, const Retraction& retraction) {
  const auto taken = votes_.retract(who, retraction);
  CINCH_TRY(taken);
  if (taken.value()) broadcasts_.push_back(Missed{retraction.topic});
  return {};
}

Result<void> AgreementSession::decideAll(std::vector<Decision> decisions) {
  if (!rounds_) return {};
  for (Decision& decision : decisions) CINCH_TRY(rounds_->add(std::move(decision)));
  return {};
}

Result<void> AgreementSession::pool(size_t who, const Figures& figures) {
  if (!decided_) return errorf(Status::remoteError, "figures before the verdict");
  if (!rounds_ || rounds_->isOver()) return {};  // nothing can come of it
  std::vector<Decision> pooled;
  CINCH_TRY(pools_.add(who, figures, {members_.size(), present_}, pooled));
  return decideAll(std::move(pooled));
}

// Any rank may end something for all; what there is to know of it is rank 0's.
Result<void> AgreementSession::propose(size_t who, const Proposal& proposal) {
  if (!rounds_) return errorf(Status::remoteError, "a proposal before the verdict");
  if (!proposal.bytes.empty() && members_[who].hello.rank != 0)
    return errorf(Status::remoteError, "a proposal that only rank 0 may make");
  // It may have come after the others were told.
  if (rounds_->isOver()) rounds_->giveUp(broadcasts_);
  return rounds_->add({proposal.topic, proposal.bytes}, proposal.ordinal);
}

Result<void> AgreementSession::prepared(size_t who, const Prepared& answer) {
  if (!rounds_) return errorf(Status::remoteError, "an answer that nobody has asked for");
  return rounds_->prepared(who, answer, broadcasts_);
}

Result<void> AgreementSession::compare(size_t who, const Trail& trail) {
  if (!rounds_) return errorf(Status::remoteError, "calls before the verdict");
  calls_.add(static_cast<size_t>(members_[who].hello.rank), trail);
  return {};
}

Deadline AgreementSession::deadline() const {
  if (!decided_) return reports_.due;
  const Deadline due = std::min({pools_.due(), arrivals_.due, calls_.due()});
  return rounds_ ? std::min(due, rounds_->due()) : due;
}

void AgreementSession::expire() {
  if (!decided_) return decide(judged());
  if (arrivals_.due <= Clock::now()) {
    arrivals_.due = kNoDeadline;
    for (size_t who = 0; who < members_.size(); ++who)
      if (members_[who].isAwaited) leave(who, false);
  }
  std::vector<Decision> pooled;
  pools_.expire(pooled);
  // Of what is too much, none is missed: the ranks go on without.
  static_cast<void>(decideAll(std::move(pooled)));
  if (rounds_) rounds_->expire(broadcasts_);
  if (const auto difference = calls_.takeDue(Clock::now())) broadcasts_.push_back(*difference);
}

std::optional<size_t> AgreementSession::memberOf(int rank) const {
  const auto isIt = [&](const Member& member) {
    return member.hello.rank == rank && !member.left && !member.isAwaited;
  };
  const auto found = std::ranges::find_if(members_, isIt);
  if (found == members_.end()) return {};
  return static_cast<size_t>(found - members_.begin());
}

const DecisionRounds* AgreementSession::outcomes() const {
  return rounds_ && std::ranges::any_of(members_, &Member::isLost) ? &*rounds_ : nullptr;
}

void AgreementSession::leave(size_t who, bool isLost) {
  members_[who].left = true;
  members_[who].isLost = isLost;
  present_--;
  if (std::exchange(members_[who].isAwaited, false)) --arrivals_.nAwaited;
  if (!decided_ && kind_ == Kind::ofChild) {
    // It may have stopped waiting and gone on without compression: so must all, those to come too.
    decide({false, leftTooEarly(members_[who].hello), {}});
  } else if (!decided_ && reports_.due != kNoDeadline && allReported(members_)) {
    decide(judged());  // this member's report was all that was waited for
  }
  // Who has left can promise nothing: what has been decided stays in force.
  if (rounds_ && !rounds_->isOver()) rounds_->giveUp(broadcasts_);
  votes_.clear();
  std::vector<Decision> none;
  pools_.leave(who, {members_.size(), present_}, none);
}

std::vector<Message> AgreementSession::takeBroadcasts() {
  if (rounds_ && present_ == members_.size() && arrivals_.nAwaited == 0)
    rounds_->begin(broadcasts_);
  return std::exchange(broadcasts_, {});
}

}  // namespace cinch
