/* Many connections at once: of one progress thread, of several, of one process. */
#include "tests/net/conformance/cases.h"
#include "tests/net/conformance/lane.h"

enum { kEachWay = 16, kThreads = 4 };

static size_t mixedBytes(int message) {
  return (size_t)(message * 7919 % 70001);
}

static const Traffic kTraffic = {
    .bytesOf = mixedBytes, .capacity = 70001, .nMessages = 12, .window = kSteps};

/* Every other one is for this rank to send on. */
static void openBothWays(Side* side, Link* links, int count) {
  for (int i = 0; i < count; ++i) links[i].sends = i % 2 == side->rank;
  openLinks(side, links, count);
}

void runManyConnections(Side* side) {
  enum { kCount = 2 * kEachWay };
  Link links[kCount];
  Lane lanes[kCount];
  openBothWays(side, links, kCount);
  for (int i = 0; i < kCount; ++i) lanes[i] = openLane(side, links[i], &kTraffic);
  runLanes(lanes, kCount);
  for (int i = 0; i < kCount; ++i) {
    closeLane(&lanes[i]);
    closeLink(side, links[i]);
  }
}

static void* finishPair(void* lanes) {
  finishLanes(lanes, 2);
  return NULL;
}

/* Each thread has a connection of its own for each direction, as communicators have. */
void runThreads(Side* side) {
  Link links[2 * kThreads];
  Lane lanes[2 * kThreads];
  pthread_t threads[kThreads];
  openBothWays(side, links, 2 * kThreads);
  for (int i = 0; i < 2 * kThreads; ++i) lanes[i] = openLane(side, links[i], &kTraffic);
  for (int i = 0; i < kThreads; ++i) threads[i] = startThread(finishPair, &lanes[2 * i]);
  for (int i = 0; i < kThreads; ++i) joinThread(threads[i]);
  for (int i = 0; i < 2 * kThreads; ++i) {
    closeLane(&lanes[i]);
    closeLink(side, links[i]);
  }
}

/* The service thread opens and closes connections while messages move on others. */
void runSetupDuringTraffic(Side* side) {
  const Traffic longer = {
      .bytesOf = mixedBytes, .capacity = 70001, .nMessages = 300, .window = kSteps};
  Link links[2];
  Lane lanes[2];
  openBothWays(side, links, 2);
  for (int i = 0; i < 2; ++i) lanes[i] = openLane(side, links[i], &longer);
  const pthread_t thread = startThread(finishPair, lanes);
  for (int i = 0; i < 8; ++i) {
    const Link link = openLink(side, i % 2);
    meetPeer(&side->channel);
    closeLink(side, link);
  }
  joinThread(thread);
  for (int i = 0; i < 2; ++i) {
    closeLane(&lanes[i]);
    closeLink(side, links[i]);
  }
}
