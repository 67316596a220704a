/* What must end in an error, and what must end at all. */
#include <limits.h>
#include <sched.h>
#include <signal.h>

#include "tests/net/conformance/cases.h"
#include "tests/net/conformance/failure.h"
#include "tests/net/conformance/lane.h"

/* Within which the death of a process must be an error at its peer. */
static const double kDeathSeconds = 10;

typedef enum { kWaiting, kSucceeded, kFailed } Outcome;

/* Posts the one message, or asks for it. Not by tryTest: the message is not what was expected. */
static Outcome outcomeOf(Lane* lane) {
  bool posted;
  int done = 0, nBytes = 0;
  const ncclResult_t result =
      lane->nPosted == 0
          ? tryPost(lane, &posted)
          : lane->plugin->calls->test(lane->plugin, lane->requests[0], &done, &nBytes);
  if (result != ncclSuccess) return kFailed;
  return done ? kSucceeded : kWaiting;
}

/* One message, and what became of it on either side. */
typedef struct {
  Side* side;
  Lane lane;
  Outcome mine;
  Outcome theirs;
} Attempt;

/* Asks until there is an answer on this side, or an error on the other. */
static void* settle(void* argument) {
  Attempt* attempt = argument;
  Channel* channel = &attempt->side->channel;
  const double deadline = now() + kDeathSeconds;
  while (attempt->mine == kWaiting && attempt->theirs != kFailed && now() < deadline) {
    attempt->mine = outcomeOf(&attempt->lane);
    if (attempt->theirs == kWaiting && peerSpoke(channel, 0)) {
      hearPeer(channel, &attempt->theirs, sizeof attempt->theirs);
    }
    sched_yield();
  }
  tellPeer(channel, &attempt->mine, sizeof attempt->mine);
  if (attempt->theirs == kWaiting) hearPeer(channel, &attempt->theirs, sizeof attempt->theirs);
  return NULL;
}

void runSendTooLarge(Side* side) {
  enum { kSent = 40000, kPosted = 1000 };
  const Traffic traffic = {
      .capacity = side->rank == 0 ? kSent : kPosted, .nMessages = 1, .window = 1};
  const Link link = openLink(side, 0);
  Attempt attempt = {.side = side, .lane = openLane(side, link, &traffic)};
  joinThread(startThread(settle, &attempt));
  CHECK(link.sends || attempt.mine != kSucceeded, "a message was cut to the size of its buffer");
  CHECK(attempt.mine == kFailed || attempt.theirs == kFailed, "neither side has an error");
  closeLane(&attempt.lane);
  closeLink(side, link);
}

static void* startSome(void* argument) {
  Lane* lanes = argument;
  for (int i = 0; i < kSteps; ++i) visitLane(&lanes[i % 2]);
  return NULL;
}

/* Large messages, of which some are on their way when both ends close. The memory is unmapped
 * after that. */
void runCloseInFlight(Side* side) {
  const Traffic traffic = {.capacity = 4 << 20, .nMessages = kSteps, .window = kSteps};
  Link links[2] = {{.sends = side->rank == 0}, {.sends = side->rank == 1}};
  Lane lanes[2];
  openLinks(side, links, 2);
  for (int i = 0; i < 2; ++i) lanes[i] = openLane(side, links[i], &traffic);
  joinThread(startThread(startSome, lanes));
  meetPeer(&side->channel);
  for (int i = 0; i < 2; ++i) {
    closeLane(&lanes[i]);
    closeLink(side, links[i]);
  }
  meetPeer(&side->channel);
  checkTraffic(side);
}

/* Rank 1 goes without a word, having sent and read nothing. */
static void* seeDeath(void* argument) {
  Attempt* attempt = argument;
  Lane* lane = &attempt->lane;
  bool moved;
  for (int i = 0; attempt->side->rank == 0 && i < 100; ++i) visitLane(lane);
  meetPeer(&attempt->side->channel);
  if (attempt->side->rank == 1) raise(SIGKILL);
  const double deadline = now() + kDeathSeconds;
  while (tryVisit(lane, &moved) == ncclSuccess) {
    CHECK(now() < deadline, "no error %g s after the death of the peer", kDeathSeconds);
    sched_yield();
  }
  return NULL;
}

/* Rank 0 gets an error, and can still close. */
static void runPeerKilled(Side* side, int sender) {
  const Traffic endless = {.capacity = 1 << 20, .nMessages = INT_MAX, .window = 4};
  const Link link = openLink(side, sender);
  Attempt attempt = {.side = side, .lane = openLane(side, link, &endless)};
  joinThread(startThread(seeDeath, &attempt));
  closeLane(&attempt.lane);
  closeLink(side, link);
}

void runPeerKilledReceiving(Side* side) {
  runPeerKilled(side, 1);
}
void runPeerKilledSending(Side* side) {
  runPeerKilled(side, 0);
}
