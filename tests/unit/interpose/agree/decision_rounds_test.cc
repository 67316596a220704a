// What the server makes of ranks' answers, and what a rank makes of the server's messages, each by
// itself; decision_search_test.cc has both.
#include "interpose/agree/decision_rounds.h"

#include <gtest/gtest.h>

#include "interpose/agree/agreement_session.h"
#include "interpose/agree/decision_record.h"
#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

using Answer = Prepared::Answer;
using State = DecisionRecord::State;

// The message at that place of `out`.
template <class T>
T at(const std::vector<Message>& out, size_t i) {
  const T* message = i < out.size() ? std::get_if<T>(&out[i]) : nullptr;
  EXPECT_NE(message, nullptr) << "message " << i << " of " << out.size();
  return message == nullptr ? T{} : *message;
}

class DecisionRoundsTest : public ::testing::Test {
 protected:
  void add(uint64_t topic, uint64_t wanted = kNoOrdinal) {
    ASSERT_TRUE(rounds_.add({topic, {}}, wanted).ok());
    rounds_.begin(out_);
  }
  // What all are sent then.
  std::vector<Message> answer(size_t member, Answer answer, uint64_t claimed, uint64_t lead = 4) {
    out_.clear();
    EXPECT_TRUE(rounds_.prepared(member, {round_, answer, claimed, lead}, out_).ok());
    for (const Message& message : out_)
      if (std::holds_alternative<Prepare>(message)) round_ = std::get<Prepare>(message).round;
    return out_;
  }

  DecisionRounds rounds_{2};
  std::vector<Message> out_;
  uint64_t round_ = 1;
};

TEST_F(DecisionRoundsTest, WhatAllAcceptIsCommitted) {
  add(7, 5);
  EXPECT_EQ(at<Prepare>(out_, 0).ordinal, 5u);
  EXPECT_TRUE(answer(1, Answer::accepted, 3).empty()) << "the other one has not answered";
  const auto commit = at<Commit>(answer(0, Answer::accepted, 5), 0);
  EXPECT_EQ(commit.ordinal, 5u);
  EXPECT_EQ(commit.decisions, std::vector<Decision>{{7}});
}

TEST_F(DecisionRoundsTest, WhatWasDecidedIsKnownUntilAllHaveAnsweredTheNext) {
  const auto isCommitted = [&](uint64_t round) {
    return std::holds_alternative<Commit>(rounds_.outcomeOf(round));
  };
  add(7, 5);
  answer(0, Answer::accepted, 3);
  EXPECT_FALSE(isCommitted(1));
  answer(1, Answer::accepted, 3);
  add(8, 9);
  answer(0, Answer::accepted, 3);
  EXPECT_TRUE(isCommitted(1)) << "member 1 may not have been told";
  EXPECT_EQ(std::get<Commit>(rounds_.outcomeOf(1)).decisions, std::vector<Decision>{{7}});
  rounds_.giveUp(out_);
  EXPECT_TRUE(isCommitted(1) && !isCommitted(2));
  EXPECT_EQ(std::get<Withdraw>(rounds_.outcomeOf(2)).openBelow, kNoOrdinal);
}

TEST_F(DecisionRoundsTest, NobodyIsAskedAboutACallThatIsTooNear) {
  add(7);
  answer(0, Answer::claimed, 100, 10);
  auto sent = answer(1, Answer::accepted, 90, 30);
  EXPECT_EQ(at<Withdraw>(sent, 0).openBelow, 100u);
  // What was known of the ranks was old. From then on twice as far with each refusal.
  EXPECT_EQ(at<Prepare>(sent, 1).ordinal, 100u + 30);
  answer(0, Answer::claimed, 200, 10);
  EXPECT_EQ(at<Prepare>(answer(1, Answer::accepted, 90, 20), 1).ordinal, 200u + 2 * 20 + 1);
  answer(0, Answer::accepted, 210, 10);
  EXPECT_EQ(at<Commit>(answer(1, Answer::accepted, 220, 20), 0).ordinal, 241u);
  // Again from the nearest.
  add(8);
  EXPECT_EQ(at<Prepare>(out_, 1).ordinal, 220u + 20);
}

// Two ranks wait before calls of theirs.
TEST_F(DecisionRoundsTest, WhereTheFirstWishIsTooLateTheNextIsNot) {
  add(6);
  add(7, 10);
  add(8, 12);
  answer(0, Answer::accepted, 0);
  answer(1, Answer::accepted, 0);
  EXPECT_EQ(at<Prepare>(out_, 1).ordinal, 10u);
  answer(0, Answer::claimed, 11);
  EXPECT_EQ(at<Prepare>(answer(1, Answer::accepted, 10), 1).ordinal, 12u);
  answer(0, Answer::busy, 11);
  EXPECT_EQ(at<Withdraw>(answer(1, Answer::accepted, 12), 0).openBelow, 12u);
  EXPECT_NE(rounds_.due(), kNoDeadline) << "asked again soon";
}

TEST_F(DecisionRoundsTest, AWishIsKeptForEachRankOnly) {
  add(6);
  for (uint64_t ordinal = 100; ordinal > 50; --ordinal) add(7, ordinal);
  answer(0, Answer::accepted, 0);
  EXPECT_EQ(at<Prepare>(answer(1, Answer::accepted, 0), 1).ordinal, 51u);
  answer(0, Answer::claimed, 52);
  EXPECT_EQ(at<Prepare>(answer(1, Answer::accepted, 0), 1).ordinal, 52u);
  answer(0, Answer::claimed, 53);
  EXPECT_GT(at<Prepare>(answer(1, Answer::accepted, 0, 40), 1).ordinal, 90u);
}

TEST_F(DecisionRoundsTest, OneAtATimeAndWhatWaitsGoesTogether) {
  add(7);
  add(8);
  add(9);
  add(8);
  EXPECT_EQ(out_.size(), 1u);
  answer(0, Answer::accepted, 0);
  auto sent = answer(1, Answer::accepted, 0);
  EXPECT_EQ(at<Commit>(sent, 0).decisions, std::vector<Decision>{{7}});
  EXPECT_EQ(at<Prepare>(sent, 1).round, 2u);
  answer(0, Answer::accepted, 0);
  const std::vector<Decision> others{{8}, {9}};
  EXPECT_EQ(at<Commit>(answer(1, Answer::accepted, 0), 0).decisions, others);
}

TEST_F(DecisionRoundsTest, WhatIsWantedFromACallOutlivesTheRoundBeforeIt) {
  add(7);
  add(8, 3);
  answer(0, Answer::accepted, 0);
  EXPECT_EQ(at<Prepare>(answer(1, Answer::accepted, 0), 1).ordinal, 3u);
  answer(0, Answer::claimed, 4);
  const auto sent = answer(1, Answer::accepted, 2);
  EXPECT_EQ(at<Withdraw>(sent, 0).openBelow, 4u) << "whoever waits knows that it is too late";
  EXPECT_GT(at<Prepare>(sent, 1).ordinal, 4u);
}

TEST_F(DecisionRoundsTest, AnOpenGroupIsWaitedForAndNotForEver) {
  add(7, 5);
  int nAsked = 0;
  for (bool insists = false; !insists; ++nAsked) {
    ASSERT_LT(nAsked, 20);
    answer(0, Answer::busy, 2);
    const auto sent = answer(1, Answer::accepted, 2);
    ASSERT_EQ(sent.size(), 1u) << "not at once";
    EXPECT_EQ(at<Withdraw>(sent, 0).openBelow, 2u) << "nobody has made a later call";
    ASSERT_NE(rounds_.due(), kNoDeadline);
    std::this_thread::sleep_until(rounds_.due());
    out_.clear();
    rounds_.expire(out_);
    EXPECT_EQ(at<Prepare>(out_, 0).ordinal, 5u) << "still the call that was asked for";
    round_ = at<Prepare>(out_, 0).round;
    insists = at<Prepare>(out_, 0).insists;
  }
  EXPECT_GT(nAsked, 3);
  answer(0, Answer::accepted, 2);
  EXPECT_EQ(at<Commit>(answer(1, Answer::accepted, 2), 0).ordinal, 5u);
}

TEST_F(DecisionRoundsTest, ARankThatLeavesEndsThemForGood) {
  add(7);
  rounds_.giveUp(out_);
  EXPECT_EQ(at<Withdraw>(out_, 1).openBelow, kNoOrdinal);
  EXPECT_TRUE(answer(0, Answer::accepted, 0).empty()) << "it had not been told yet";
  add(8);
  EXPECT_TRUE(out_.empty());
}

TEST_F(DecisionRoundsTest, AreBoundedAndRefuseASecondAnswer) {
  add(7);
  answer(0, Answer::accepted, 0);
  EXPECT_FALSE(rounds_.prepared(0, {1, Answer::accepted, 0, 4}, out_).ok());
  for (uint64_t topic = 8; topic < kMaxPendingDecisions + 8; ++topic)
    ASSERT_TRUE(rounds_.add({topic, {}}).ok());
  EXPECT_FALSE(rounds_.add({1u << 20, {}}).ok());
}

TEST_F(DecisionRoundsTest, ARoundFitsAMessage) {
  add(0);
  for (uint64_t topic = 1; topic < 100; ++topic)
    ASSERT_TRUE(rounds_.add({topic, Bytes(kMaxDecidedBytes)}).ok());
  size_t nDecided = 0;
  while (nDecided < 100) {
    answer(0, Answer::accepted, 0);
    const auto sent = answer(1, Answer::accepted, 0);
    EXPECT_LT(encodeMessage(sent[0]).size(), kMaxServerBytes);
    nDecided += at<Commit>(sent, 0).decisions.size();
  }
  EXPECT_EQ(nDecided, 100u);
}

Prepared prepared(DecisionRecord& record, const Prepare& message, bool isBusy = false) {
  const auto answer = record.prepare(message, isBusy);
  EXPECT_TRUE(answer.ok() && answer.value());
  return answer.ok() && answer.value() ? *answer.value() : Prepared{};
}

TEST(DecisionRecord, WaitsAtItsMarkAndTakesWhatIsDecided) {
  DecisionRecord record;
  record.claim();
  EXPECT_EQ(prepared(record, {1, 2}).answer, Answer::accepted);
  EXPECT_EQ(record.state(), State::free) << "one more call may be made";
  EXPECT_TRUE(record.claim().empty());
  EXPECT_EQ(record.state(), State::marked);
  ASSERT_TRUE(record.commit({1, 2, {{7, {1}}, {8, {}}}}).ok());
  EXPECT_EQ(record.state(), State::free);
  EXPECT_EQ(record.claim(), (std::vector<Decision>{{7, {1}}, {8, {}}}));
  EXPECT_TRUE(record.claim().empty()) << "once";
}

TEST(DecisionRecord, PromisesNoCallThatItHasEverClaimed) {
  DecisionRecord record;
  for (int call = 0; call < 3; ++call) record.claim();
  record.takeBack();
  record.takeBack();
  EXPECT_EQ(record.claimed(), 1u);
  const Prepared refusal = prepared(record, {1, 2});
  EXPECT_TRUE(refusal.answer == Answer::claimed && refusal.claimed == 3);
  EXPECT_EQ(prepared(record, {2, 3}, true).answer, Answer::busy);
  EXPECT_EQ(prepared(record, {3, 3}).answer, Answer::accepted);
}

TEST(DecisionRecord, InDoubtIsOnlyWhoHasPromised) {
  DecisionRecord free, promised, committed;
  free.end();
  EXPECT_TRUE(free.isOver());
  for (int call = 0; call < 100; ++call) {
    ASSERT_EQ(free.state(), State::free);
    free.claim();
  }
  prepared(promised, {1, 1});
  promised.end();
  EXPECT_EQ(promised.state(), State::free);
  promised.claim();
  EXPECT_EQ(promised.state(), State::inDoubt);
  prepared(committed, {1, 1});
  ASSERT_TRUE(committed.commit({1, 1, {{7}}}).ok());
  committed.end();
  committed.claim();
  EXPECT_EQ(committed.claim(), std::vector<Decision>{{7}}) << "it knows";
}

TEST(DecisionRecord, WhatItReceivesInDoubtResolvesIt) {
  for (const bool isDecided : {true, false}) {
    DecisionRecord record;
    prepared(record, {1, 0});
    record.end();
    ASSERT_EQ(record.state(), State::inDoubt);
    EXPECT_EQ(record.markedRound(), 1u);
    EXPECT_FALSE(record.commit({2, 0, {{7}}}).ok()) << "of another round";
    ASSERT_TRUE(isDecided ? record.commit({1, 0, {{7}}}).ok()
                          : record.withdraw({1, kNoOrdinal}).ok());
    EXPECT_EQ(record.state(), State::free);
    EXPECT_TRUE(record.isOver());
    EXPECT_EQ(record.claim().size(), isDecided ? 1u : 0u);
    ASSERT_TRUE(record.commit({3, 4, {{8}}}).ok()) << "it is in doubt no longer";
    for (int call = 0; call < 10; ++call) EXPECT_TRUE(record.claim().empty());
  }
}

TEST(DecisionRecord, AsksForTwiceTheLeadThatWasTooShort) {
  DecisionRecord record;
  record.setPeriod(50);
  EXPECT_EQ(prepared(record, {1, 15}).lead, 0u) << "before anybody has waited";
  record.noteWait();
  ASSERT_TRUE(record.withdraw({1, 0}).ok());
  EXPECT_EQ(prepared(record, {2, 300}).lead, 50u) << "a step";
  record.noteWait();
  ASSERT_TRUE(record.withdraw({2, 0}).ok());
  EXPECT_EQ(prepared(record, {3, 400}).lead, 600u);
  for (uint64_t round = 3; round < 100; ++round) {
    ASSERT_TRUE(record.withdraw({round, 0}).ok());
    EXPECT_GE(prepared(record, {round + 1, 400}).lead, 50u);
  }
}

TEST(DecisionRecord, AsksForWhatTheProgramCallsInFourRoundTrips) {
  DecisionRecord record;
  prepared(record, {1, 1000});
  for (int call = 0; call < 70; ++call) record.claim();
  ASSERT_TRUE(record.commit({1, 1000, {}}).ok());
  const uint64_t lead = prepared(record, {2, 2000}).lead;
  EXPECT_EQ(lead, 280u);
  ASSERT_TRUE(record.withdraw({2, 0}).ok());
  EXPECT_LT(prepared(record, {3, 3000}).lead, lead) << "what was needed once is forgotten";
}

TEST(DecisionRecord, RefusesWhatBreaksTheProtocol) {
  DecisionRecord record;
  EXPECT_FALSE(record.commit({1, 5, {}}).ok()) << "nothing was accepted";
  prepared(record, {1, 5});
  EXPECT_FALSE(record.prepare({2, 9}, false).ok()) << "one at a time";
  EXPECT_FALSE(record.commit({2, 5, {}}).ok());
  EXPECT_FALSE(record.commit({1, 6, {}}).ok());
  EXPECT_FALSE(record.withdraw({2, 0}).ok());
  EXPECT_TRUE(record.commit({1, 5, {}}).ok());
}

TEST(DecisionRecord, KnowsWhetherItsNextCallIsTheFirst) {
  DecisionRecord record;
  record.claim();
  EXPECT_FALSE(record.isInForceAtNext(7).has_value());
  prepared(record, {1, 1});
  ASSERT_TRUE(record.commit({1, 1, {{7}}}).ok());
  EXPECT_EQ(record.isInForceAtNext(7), true);
  EXPECT_FALSE(record.isInForceAtNext(8).has_value());
  ASSERT_TRUE(record.withdraw({2, 2}).ok());
  EXPECT_EQ(record.isInForceAtNext(8), false) << "another rank has made that call";
  ASSERT_TRUE(record.withdraw({3, kNoOrdinal}).ok());
  EXPECT_TRUE(record.isOver());
}

TEST(DecisionsOfASession, NeedAllItsRanks) {
  AgreementSession early(loopback(), std::chrono::seconds(1));
  ASSERT_TRUE(early.join(makeHello(0, 2), loopback()).ok());
  EXPECT_FALSE(early.propose(0, {1, 0, {}}).ok()) << "before the handshake has ended";
  EXPECT_FALSE(early.prepared(0, {1, Answer::accepted, 0, 0}).ok());

  AgreementSession session(loopback(), std::chrono::seconds(1));
  for (int rank : {0, 1, 2}) ASSERT_TRUE(session.join(makeHello(rank, 3), loopback()).ok());
  session.takeBroadcasts();
  EXPECT_FALSE(session.propose(1, {1, kNoOrdinal, {7}}).ok()) << "bytes are rank 0's";
  ASSERT_TRUE(session.propose(1, {1, 4, {}}).ok());
  EXPECT_EQ(at<Prepare>(session.takeBroadcasts(), 0).ordinal, 4u);
  session.leave(1, false);
  EXPECT_EQ(at<Withdraw>(session.takeBroadcasts(), 0).openBelow, kNoOrdinal);
  ASSERT_TRUE(session.propose(0, {2, 9, {}}).ok());
  EXPECT_EQ(at<Withdraw>(session.takeBroadcasts(), 0).openBelow, kNoOrdinal)
      << "who asks is told, since it waits";
}

}  // namespace
}  // namespace cinch
