// Ranks that try to be at the same call together, over a server on loopback.
#include "interpose/comm/comm_decisions.h"

#include <random>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kConnections = 3;
constexpr Signature kCall{CallKind::allReduce, OpClass::sum, ncclFloat32, 20000};

class MeetingTest : public AgreementFixture {
 protected:
  void agree(int nRanks) {
    Ranks agreed = greetAll(newId(), nRanks);
    EXPECT_TRUE(verdictOfAll(agreed).compress);
    for (auto& rank : agreed) {
      channels_.push_back(std::move(rank));
      decisions_.push_back(std::make_unique<CommDecisions>(name_));
      EXPECT_TRUE(decisions_.back()->begin(channels_.back(), name_, {nRanks, 1, 1}, false).ok());
    }
  }
  bool meets(size_t rank, uint64_t call, Deadline patience) {
    EXPECT_TRUE(decisions_[rank]->arrive(call, call));
    const auto met = decisions_[rank]->haveMet(call, call, kConnections, patience);
    EXPECT_TRUE(met.ok()) << met.error().message;
    return met.ok() && met.value();
  }

  const std::string name_ = "comm0";
  std::vector<std::shared_ptr<Agreement>> channels_;
  std::vector<std::unique_ptr<CommDecisions>> decisions_;
};

TEST_F(MeetingTest, AllAreThereOrNone) {
  agree(3);
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(decisions_[rank]->arrive(5, 5));
  for (size_t rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(decisions_[rank]->haveMet(5, 5, kConnections, kNoDeadline).value());
  // Rank 2's program is somewhere else.
  EXPECT_TRUE(decisions_[0]->arrive(6, 6));
  EXPECT_FALSE(meets(1, 6, deadlineIn(milliseconds(20))));
  EXPECT_FALSE(decisions_[0]->haveMet(6, 6, kConnections, kNoDeadline).value());
  EXPECT_FALSE(meets(2, 6, kNoDeadline)) << "it comes when the others have gone on";
  for (const auto& decisions : decisions_) {
    EXPECT_TRUE(decisions->meetings().areMade(kConnections));
    EXPECT_FALSE(decisions->meetings().areMade(kConnections + 1));
    EXPECT_FALSE(decisions->meetings().mayBeAt(7));
    EXPECT_TRUE(decisions->meetings().mayBeAt(8));
  }
}

TEST_F(MeetingTest, WhoComesLateGoesOnAtOnce) {
  agree(2);
  EXPECT_FALSE(meets(0, 3, deadlineIn(milliseconds(1))));
  for (int call = 0; call < 200; ++call) EXPECT_TRUE(decisions_[1]->claim(kCall).ok());
  EXPECT_FALSE(meets(1, 3, kNoDeadline));
}

TEST_F(MeetingTest, WhereARankHasLeftNobodyWaits) {
  agree(2);
  channels_[1]->close();
  EXPECT_FALSE(meets(0, 1, kNoDeadline));
  EXPECT_FALSE(decisions_[1]->arrive(1, 1));
  EXPECT_FALSE(decisions_[1]->meetings().mayBeAt(1));
}

// Nothing has been decided that this rank has not promised: it may go on.
TEST_F(MeetingTest, WithoutItsConnectionARankPasses) {
  agree(2);
  EXPECT_TRUE(decisions_[0]->arrive(1, 1));
  std::thread breaking([&] {
    std::this_thread::sleep_for(milliseconds(20));
    channels_[0]->close();
  });
  const auto met = decisions_[0]->haveMet(1, 1, kConnections, kNoDeadline);
  breaking.join();
  EXPECT_TRUE(met.ok() && !met.value());
  EXPECT_FALSE(meets(1, 1, kNoDeadline));
}

TEST_F(MeetingTest, WithoutTheServerARankPasses) {
  agree(2);
  server_.reset();
  if (!decisions_[0]->arrive(1, 1)) return;  // it has noticed already
  const auto met = decisions_[0]->haveMet(1, 1, kConnections, kNoDeadline);
  EXPECT_TRUE(met.ok() && !met.value());
}

// Whoever is ahead, gives up, or comes when the others just do.
TEST_F(MeetingTest, RanksAtTheirOwnPaceAgreeOnWhereTheyMet) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  agree(3);
  std::vector<std::map<uint64_t, bool>> outcomes(3);
  std::vector<std::thread> programs;
  for (size_t rank = 0; rank < 3; ++rank)
    programs.emplace_back([&, rank] {
      std::mt19937 random(seed + static_cast<unsigned>(rank));
      for (uint64_t step = 0; step < 400; ++step) {
        if (random() % 4 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
        ASSERT_TRUE(decisions_[rank]->claim(kCall).ok());
        outcomes[rank][step] = meets(rank, step, deadlineIn(milliseconds(random() % 3)));
      }
    });
  for (std::thread& program : programs) program.join();
  EXPECT_EQ(outcomes[0], outcomes[1]);
  EXPECT_EQ(outcomes[0], outcomes[2]);
  size_t nMet = 0;
  for (const auto& [step, met] : outcomes[0]) nMet += met ? 1 : 0;
  EXPECT_GT(nMet, 0u);
  EXPECT_LT(nMet, 400u);
}

TEST(Meetings, AreTriedAgainAtTwiceAsManyCalls) {
  Meetings meetings;
  EXPECT_TRUE(meetings.mayBeAt(0));
  for (const auto& [missed, next] : {std::pair{0, 1}, {5, 8}, {8, 16}, {200, 256}}) {
    meetings.missed(static_cast<uint64_t>(missed));
    EXPECT_FALSE(meetings.mayBeAt(static_cast<uint64_t>(next) - 1));
    EXPECT_TRUE(meetings.mayBeAt(static_cast<uint64_t>(next)));
  }
}

TEST(Meetings, ARankWaitsAsLongAsTwoSteps) {
  Meetings meetings;
  const Clock::time_point begin = Clock::now();
  constexpr uint64_t kPeriod = 3;
  const auto note = [&](uint64_t call, int second) {
    meetings.note(call, kPeriod, begin + std::chrono::seconds(second));
    return meetings.patience();
  };
  EXPECT_EQ(meetings.patience(), std::chrono::seconds(1));
  EXPECT_EQ(note(10, 0), std::chrono::seconds(1));
  EXPECT_EQ(note(12, 4), std::chrono::seconds(1)) << "in the same step";
  EXPECT_EQ(note(13, 5), std::chrono::seconds(10));
  EXPECT_EQ(note(16, 9), std::chrono::seconds(10));
  meetings.missed(16);
  EXPECT_EQ(note(19, 60), std::chrono::seconds(10)) << "it has waited itself";
}

TEST(Meetings, NoRankWaitsForLongerThanAMinute) {
  Meetings meetings;
  meetings.note(1, 0, Clock::now());
  meetings.note(2, 0, Clock::now() + std::chrono::hours(1));
  EXPECT_EQ(meetings.patience(), std::chrono::seconds(60));
}

}  // namespace
}  // namespace cinch
