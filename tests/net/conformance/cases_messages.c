/* What arrives is what was sent, in order, whatever the sizes and buffers. */
#include <sched.h>

#include "tests/net/conformance/cases.h"
#include "tests/net/conformance/failure.h"
#include "tests/net/conformance/lane.h"

enum { kKi = 1 << 10, kMi = 1 << 20 };

/* The same numbers on both sides. */
static uint32_t scramble(int message) {
  uint32_t x = (uint32_t)message * 2654435761u;
  x ^= x >> 15;
  x *= 2246822519u;
  return x ^ x >> 13;
}

static size_t mixedBytes(int message) {
  return scramble(message) % (96 * kKi);
}

/* Different sizes, so that a swapped pair would be seen in more than its contents. */
void runFifo(Side* side) {
  const Traffic traffic = {
      .bytesOf = mixedBytes, .capacity = 96 * kKi, .nMessages = 200, .window = kSteps};
  runTraffic(side, 0, &traffic);
  runTraffic(side, 1, &traffic);
}

static size_t fewBytes(int message) {
  return scramble(message) % 3000;
}

/* NCCL posts a whole slice and gets less. */
void runOversizedReceive(Side* side) {
  const Traffic traffic = {.bytesOf = fewBytes, .capacity = kMi, .nMessages = 40, .window = kSteps};
  runTraffic(side, 0, &traffic);
}

static size_t oftenNothing(int message) {
  return message % 3 == 1 ? 1000 : 0;
}

void runZeroBytes(Side* side) {
  const Traffic mixed = {
      .bytesOf = oftenNothing, .capacity = 1000, .nMessages = 60, .window = kSteps};
  const Traffic nothing = {.capacity = 0, .nMessages = 20, .window = kSteps};
  runTraffic(side, 0, &mixed);
  runTraffic(side, 1, &nothing);
}

static const size_t kSizes[] = {
    8,         1,         7,       64,   100,      127,         128,     129,        511,
    1000,      4095,      4096,    4097, 32 * kKi, 65535,       65536,   65537,      128 * kKi - 1,
    128 * kKi, 600 * kKi, kMi - 1, kMi,  kMi + 1,  3 * kMi + 5, 4 * kMi, 8 * kMi + 3};
enum { kSizeCount = sizeof kSizes / sizeof kSizes[0] };

static size_t listedBytes(int message) {
  return kSizes[message];
}

void runSizes(Side* side) {
  const Traffic traffic = {
      .bytesOf = listedBytes, .capacity = 8 * kMi + 3, .nMessages = kSizeCount, .window = 2};
  runTraffic(side, 0, &traffic);
}

void runLarge(Side* side) {
  const Traffic traffic = {.capacity = 64 * kMi, .nMessages = 1, .window = 1};
  runTraffic(side, 0, &traffic);
}

void runMisaligned(Side* side) {
  static const size_t kOffsets[] = {1, 2, 3, 4, 7, 8, 13};
  for (size_t i = 0; i < sizeof kOffsets / sizeof kOffsets[0]; ++i) {
    const Traffic traffic = {.bytesOf = mixedBytes,
                             .capacity = 96 * kKi,
                             .nMessages = 8,
                             .window = 4,
                             .misalignment = kOffsets[i]};
    runTraffic(side, (int)i % 2, &traffic);
  }
}

void runEarlyCompletion(Side* side) {
  const Traffic traffic = {
      .capacity = 16 * kKi, .nMessages = 40, .window = kSteps, .mayCompleteEarly = true};
  runTraffic(side, 0, &traffic);
}

/* What a case that posts in its own way has to do it with. */
typedef struct {
  Side* side;
  Lane lane;
} Task;

static void runTask(Side* side, const Traffic* traffic, void* (*run)(void*)) {
  const Link link = openLink(side, 0);
  Task task = {side, openLane(side, link, traffic)};
  joinThread(startThread(run, &task));
  closeLane(&task.lane);
  closeLink(side, link);
}

static void* sendFirst(void* argument) {
  Task* task = argument;
  for (int i = 0; task->lane.link.sends && i < 2000; ++i) visitLane(&task->lane);
  meetPeer(&task->side->channel);
  finishLanes(&task->lane, 1);
  return NULL;
}

/* Rank 0 sends, and asks how it goes, before any buffer waits for it. */
void runSendFirst(Side* side) {
  const Traffic traffic = {.capacity = 20000, .nMessages = kSteps, .window = kSteps};
  runTask(side, &traffic, sendFirst);
}

/* Asks for nothing until the receiver has closed, unless the plugin needs to be asked in order to
 * send. */
static void* sendAndWait(void* argument) {
  Task* task = argument;
  Lane* lane = &task->lane;
  while (lane->link.sends && lane->nPosted < lane->traffic.nMessages) postNext(lane);
  if (lane->link.sends) peerSpoke(&task->side->channel, 100);
  finishLanes(lane, 1);
  return NULL;
}

/* What has been received counts as sent, though the receiver is gone before the sender knows. */
void runReceiverClosesFirst(Side* side) {
  const Traffic traffic = {.capacity = 20000, .nMessages = kSteps, .window = kSteps};
  runTask(side, &traffic, sendAndWait);
  meetPeer(&side->channel);
}

/* It may put posts off, but not for ever. */
static void postRequired(Lane* lane) {
  const double deadline = now() + 10;
  while (lane->nPosted < NCCL_NET_MAX_REQUESTS) {
    if (postNext(lane)) continue;
    CHECK(now() < deadline, "it takes %d requests at a time, must take %d", lane->nPosted,
          NCCL_NET_MAX_REQUESTS);
    sched_yield();
  }
}

/* Posts what the window has room for, without a test in between; the receiver goes first. */
static void* fillWindow(void* argument) {
  Task* task = argument;
  Lane* lane = &task->lane;
  if (lane->link.sends) meetPeer(&task->side->channel);
  postRequired(lane);
  while (lane->nPosted < lane->traffic.window && postNext(lane)) continue;
  if (!lane->link.sends) meetPeer(&task->side->channel);
  finishLanes(lane, 1);
  return NULL;
}

void runInFlight(Side* side) {
  const Traffic traffic = {
      .capacity = 2000, .nMessages = 2 * NCCL_NET_MAX_REQUESTS, .window = NCCL_NET_MAX_REQUESTS};
  runTask(side, &traffic, fillWindow);
}

/* More than any NCCL does: it may be taken or put off; it is no error. */
void runBeyondLimit(Side* side) {
  const Traffic traffic = {.capacity = 2000, .nMessages = 2 * kMaxWindow, .window = kMaxWindow};
  runTask(side, &traffic, fillWindow);
}
