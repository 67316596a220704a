// Every interleaving of a small communicator that decides: two ranks, what they claim and take
// back, what is on its way between them and the server, connections that break at any moment, on
// either side first. Wherever two ranks have made the call of one number, the same is in force
// there. Who is in doubt may ask the server, at any moment.
//
// The same search finds what parts ranks where a rank is not what it should be.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "interpose/agree/decision_record.h"
#include "interpose/agree/decision_rounds.h"

namespace cinch {
namespace {

constexpr size_t kRanks = 2;
constexpr uint64_t kCalls = 2;                  // of each rank; rank 0 may take one back
constexpr uint64_t kDecided = 0, kClosing = 1;  // topics
using State = DecisionRecord::State;

// How a rank goes wrong. The last one takes back what it has made all the same.
enum class Fault { none, noMark, freeInDoubt, forgottenClaim, forgottenOutcome };

// Messages on their way, by their numbers in the search.
using Wire = std::vector<size_t>;

struct Rank {
  DecisionRecord record;
  std::optional<DecisionRecord> other;  // of a rank that has not made the last claim
  uint8_t inForce = 0;                  // topics, a bit for each
  std::vector<uint8_t> log;             // likewise, by call
  bool hasTakenBack = false;
  bool mayTakeBack = false;  // the last claim
  bool isConnected = true;   // as far as the rank knows,
  bool isMember = true;      // and the server
  bool isBroken = false;
  bool hasProposed = false;
  Wire up, down;
  auto operator<=>(const Rank&) const = default;
};

struct World {
  DecisionRounds rounds{kRanks};
  std::array<Rank, kRanks> ranks;
  bool isProposed = false;
  auto operator<=>(const World&) const = default;
};

class Search {
 public:
  explicit Search(Fault fault) : fault_(fault) {}

  // How two ranks have parted; empty: nowhere.
  std::string run() {
    add({});
    while (!open_.empty() && parted_.empty()) {
      const World world = *open_.back();
      open_.pop_back();
      next(world);
    }
    return parted_;
  }
  size_t nStates() const { return seen_.size(); }
  size_t nInForce() const { return nInForce_; }
  size_t nInDoubt() const { return nInDoubt_; }
  size_t nLearnt() const { return nLearnt_; }

 private:
  void add(const World& world) {
    const auto [at, isNew] = seen_.insert(world);
    if (!isNew) return;
    check(world);
    open_.push_back(&*at);
  }

  void check(const World& world) {
    const auto &a = world.ranks[0].log, &b = world.ranks[1].log;
    for (size_t call = 0; call < std::min(a.size(), b.size()); ++call) {
      if (a[call] != b[call]) parted_ = "at call " + std::to_string(call);
      nInForce_ += a[call] != 0;
    }
    for (const Rank& rank : world.ranks) nInDoubt_ += rank.record.state() == State::inDoubt;
  }

  size_t numberOf(const Message& message) {
    const auto [at, isNew] = numbers_.emplace(encodeMessage(message), messages_.size());
    if (isNew) messages_.push_back(message);
    return at->second;
  }

  void broadcast(World& world, std::vector<Message>& out) {
    const bool isComplete = world.ranks[0].isMember && world.ranks[1].isMember;
    if (isComplete) world.rounds.begin(out);
    for (const Message& message : out)
      for (Rank& rank : world.ranks)
        if (rank.isMember && rank.isConnected && !rank.isBroken)
          rank.down.push_back(numberOf(message));
    out.clear();
  }

  void next(const World& world) {
    for (size_t i = 0; i < kRanks; ++i) {
      claim(world, i);
      takeBack(world, i);
      propose(world, i);
      deliverUp(world, i);
      deliverDown(world, i);
      breakConnection(world, i);
      ask(world, i);
    }
    decide(world);
  }

  bool mayClaim(const Rank& rank) const {
    if (rank.record.claimed() == kCalls) return false;
    const State state = rank.record.state();
    return state == State::free || fault_ == Fault::noMark ||
           (state == State::inDoubt && fault_ == Fault::freeInDoubt);
  }

  void claim(World world, size_t i) {
    Rank& rank = world.ranks[i];
    if (!mayClaim(rank)) return;
    rank.mayTakeBack = i == 0 && !rank.hasTakenBack;
    if (fault_ == Fault::forgottenClaim && rank.mayTakeBack) rank.other = rank.record;
    const bool isRepeated = rank.record.claimed() < rank.log.size();
    for (const Decision& decision : rank.record.claim())
      rank.inForce = static_cast<uint8_t>(rank.inForce | 1u << decision.topic);
    if (!isRepeated) rank.log.push_back(rank.inForce);
    add(world);
  }

  void takeBack(World world, size_t i) {
    Rank& rank = world.ranks[i];
    if (!std::exchange(rank.mayTakeBack, false)) return;
    rank.hasTakenBack = true;
    if (fault_ == Fault::forgottenClaim) {
      rank.record = *rank.other;
    } else {
      // What came into force with it stays known, and is not to be used by an earlier call.
      rank.log.pop_back();
      rank.record.takeBack();
    }
    rank.other.reset();
    add(world);
  }

  // That a call site is none any more, before this rank's next call.
  void propose(World world, size_t i) {
    Rank& rank = world.ranks[i];
    if (rank.hasProposed || !rank.isConnected || i == 0) return;
    rank.hasProposed = true;
    rank.up.push_back(numberOf(Proposal{kClosing, rank.record.claimed(), {}}));
    add(world);
  }

  // Something that rank 0 decides, or all have voted on.
  void decide(World world) {
    if (std::exchange(world.isProposed, true)) return;
    EXPECT_TRUE(world.rounds.add({kDecided, {}}).ok());
    std::vector<Message> out;
    broadcast(world, out);
    add(world);
  }

  void deliverUp(World world, size_t i) {
    Rank& rank = world.ranks[i];
    if (rank.up.empty() || !rank.isMember) return;
    const Message message = messages_[rank.up.front()];
    rank.up.erase(rank.up.begin());
    std::vector<Message> out;
    if (const auto* proposal = std::get_if<Proposal>(&message)) {
      ASSERT_TRUE(world.rounds.add({proposal->topic, {}}, proposal->ordinal).ok());
    } else {
      const auto taken = world.rounds.prepared(i, std::get<Prepared>(message), out);
      ASSERT_TRUE(taken.ok()) << taken.error().message;
    }
    broadcast(world, out);
    add(world);
  }

  void deliverDown(World world, size_t i) {
    Rank& rank = world.ranks[i];
    if (rank.down.empty() || !rank.isConnected) return;
    const Message message = messages_[rank.down.front()];
    rank.down.erase(rank.down.begin());
    Result<void> good;
    if (const auto* prepare = std::get_if<Prepare>(&message)) {
      const auto answer = rank.record.prepare(*prepare, false);
      ASSERT_TRUE(answer.ok()) << answer.error().message;
      if (!rank.isBroken) rank.up.push_back(numberOf(*answer.value()));
    } else if (const auto* commit = std::get_if<Commit>(&message)) {
      good = rank.record.commit(*commit);
    } else {
      good = rank.record.withdraw(std::get<Withdraw>(message));
    }
    ASSERT_TRUE(good.ok()) << good.error().message;
    if (fault_ == Fault::forgottenClaim && rank.other) deliverTo(*rank.other, message);
    add(world);
  }

  // Beside the one that counts.
  static void deliverTo(DecisionRecord& record, const Message& message) {
    if (const auto* prepare = std::get_if<Prepare>(&message))
      static_cast<void>(record.prepare(*prepare, false));
    else if (const auto* commit = std::get_if<Commit>(&message))
      static_cast<void>(record.commit(*commit));
    else
      static_cast<void>(record.withdraw(std::get<Withdraw>(message)));
  }

  // Either end may notice first, and what is on its way may still arrive.
  void breakConnection(const World& world, size_t i) {
    if (!world.ranks[i].isBroken && world.ranks[1 - i].isBroken) return;
    if (!world.ranks[i].isBroken) {
      World broken = world;
      broken.ranks[i].isBroken = true;
      add(broken);
      return;
    }
    if (world.ranks[i].isConnected) {
      World ended = world;
      ended.ranks[i].record.end();
      ended.ranks[i].isConnected = false;
      ended.ranks[i].down.clear();
      add(ended);
    }
    if (world.ranks[i].isMember) {
      World left = world;
      leave(left, i);
      add(left);
    }
  }

  // Over another connection, which tells the server that the old one is no more.
  void ask(World world, size_t i) {
    Rank& rank = world.ranks[i];
    if (rank.isConnected || !rank.record.isMarked()) return;
    if (rank.isMember) leave(world, i);
    Message outcome = world.rounds.outcomeOf(*rank.record.markedRound());
    if (fault_ == Fault::forgottenOutcome)
      outcome = Withdraw{*rank.record.markedRound(), kNoOrdinal};
    const auto* commit = std::get_if<Commit>(&outcome);
    const auto good = commit != nullptr ? rank.record.commit(*commit)
                                        : rank.record.withdraw(std::get<Withdraw>(outcome));
    ASSERT_TRUE(good.ok()) << good.error().message;
    nLearnt_ += commit != nullptr;
    add(world);
  }

  void leave(World& world, size_t i) {
    world.ranks[i].isMember = false;
    world.ranks[i].up.clear();
    std::vector<Message> out;
    world.rounds.giveUp(out);
    broadcast(world, out);
  }

  const Fault fault_;
  std::map<Bytes, size_t> numbers_;
  std::vector<Message> messages_;
  std::set<World> seen_;
  std::vector<const World*> open_;
  std::string parted_;
  size_t nInForce_ = 0, nInDoubt_ = 0, nLearnt_ = 0;
};

TEST(DecisionSearch, NoInterleavingPartsRanks) {
  Search search(Fault::none);
  EXPECT_EQ(search.run(), "");
  EXPECT_GT(search.nInForce(), 0u) << "something has to be decided";
  EXPECT_GT(search.nInDoubt(), 0u) << "and somebody in doubt";
  EXPECT_GT(search.nLearnt(), 0u) << "who learns that it was";
  EXPECT_GT(search.nStates(), 100000u);
}

TEST(DecisionSearch, FindsARankThatDoesNotWaitForTheOutcome) {
  EXPECT_NE(Search(Fault::noMark).run(), "");
}

TEST(DecisionSearch, FindsARankThatGoesOnInDoubt) {
  EXPECT_NE(Search(Fault::freeInDoubt).run(), "");
}

TEST(DecisionSearch, FindsAServerThatForgetsAnOutcome) {
  EXPECT_NE(Search(Fault::forgottenOutcome).run(), "");
}

TEST(DecisionSearch, FindsARankThatForgetsAClaim) {
  EXPECT_NE(Search(Fault::forgottenClaim).run(), "");
}

}  // namespace
}  // namespace cinch
