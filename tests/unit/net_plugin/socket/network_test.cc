#include "net_plugin/socket/network.h"

#include "tests/unit/net_plugin/socket/two_networks.h"

namespace cinch::net {
namespace {

class NetworkTest : public TwoNetworks {
 protected:
  void SetUp() override { open(quickSettings(2)); }

  // Enough for whatever is under way to arrive.
  void settle() {
    for (int i = 0; i < 200; ++i) step();
  }
  // Without it the sender would wait for ever: nobody will take its message any more.
  void expectRefused(SendEnd& send) {
    runUntil([&] { return hasFailed(send); }, "a refusal");
  }

  const std::vector<char> bytes_ = randomBytes(100'000, 1);
};

TEST_F(NetworkTest, AListenerThatClosesTurnsAwayAllThatItWasSent) {
  const Invitation invitation = there->invite();
  std::vector<SendEnd> callers(3);
  for (SendEnd& caller : callers) {
    caller = here->connect(invitation);
    runUntil([&] { return isOpened(caller); }, "a connection");
    ASSERT_NE(post(caller, bytes_), nullptr);
  }
  settle();
  there->withdraw(invitation.token);
  for (SendEnd& caller : callers) expectRefused(caller);
}

TEST_F(NetworkTest, OnlyWhatWasNotAcceptedIsTurnedAway) {
  const Invitation invitation = there->invite();
  std::vector<SendEnd> callers(2);
  for (SendEnd& caller : callers) {
    caller = here->connect(invitation);
    runUntil([&] { return isOpened(caller); }, "a connection");
  }
  settle();
  const WaitingChannel accepted = there->accept(invitation.token);
  ASSERT_NE(accepted.link, nullptr);
  there->withdraw(invitation.token);
  runUntil([&] { return hasFailed(callers[0]) || hasFailed(callers[1]); }, "a refusal");
  settle();
  EXPECT_NE(hasFailed(callers[0]), hasFailed(callers[1]));
}

TEST_F(NetworkTest, WhoCallsAListenerThatHasClosedIsTurnedAway) {
  const Invitation invitation = there->invite();
  there->withdraw(invitation.token);
  SendEnd late = here->connect(invitation);
  (void)post(late, bytes_);
  expectRefused(late);
}

}  // namespace
}  // namespace cinch::net
