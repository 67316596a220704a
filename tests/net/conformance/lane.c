#include "tests/net/conformance/lane.h"

#include <sched.h>
#include <sys/mman.h>

#include "tests/net/conformance/failure.h"
#include "tests/net/conformance/pattern.h"

/* Free bytes around each buffer, and how they are placed. */
enum { kMargin = 64, kAlignment = 64 };

static const double kEarlyDataSeconds = 5;

static size_t bytesOf(const Traffic* traffic, int message) {
  return traffic->bytesOf == NULL ? traffic->capacity : traffic->bytesOf(message);
}

static size_t strideOf(const Traffic* traffic) {
  const size_t nBytes = traffic->capacity + traffic->misalignment + 2 * kMargin;
  return (nBytes + kAlignment - 1) / kAlignment * kAlignment;
}

static size_t slotBytes(const Lane* lane) {
  return lane->traffic.window * lane->stride;
}

/* Mapped on its own, so that a plugin that touches it after deregMr is caught: NCCL frees buffers
 * between that and the close, with requests in flight where a communicator is aborted. */
Lane openLane(Side* side, Link link, const Traffic* traffic) {
  CHECK(traffic->window <= kMaxWindow, "a window of more than %d", kMaxWindow);
  Lane lane = {.traffic = *traffic, .plugin = side->plugin, .link = link};
  lane.stride = strideOf(traffic);
  lane.slots =
      mmap(NULL, slotBytes(&lane), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(lane.slots != MAP_FAILED, "out of memory");
  CALL(side->plugin, regMr, link.comm, lane.slots, slotBytes(&lane), &lane.memory);
  return lane;
}

void closeLane(Lane* lane) {
  CALL(lane->plugin, deregMr, lane->link.comm, lane->memory);
  munmap(lane->slots, slotBytes(lane));
}

static uint8_t* slotOf(const Lane* lane, int message) {
  return lane->slots + (size_t)(message % lane->traffic.window) * lane->stride;
}

static uint8_t* bufferOf(const Lane* lane, int message) {
  return slotOf(lane, message) + kMargin + lane->traffic.misalignment;
}

/* Its low bits count the words of the message. */
static uint64_t keyOf(const Lane* lane, int message) {
  return (uint64_t)(lane->link.number + 1) << 48 | (uint64_t)(message + 1) << 24;
}

/* Once for each message, however often the plugin puts it off. */
static void prepareBuffer(Lane* lane, int message) {
  if (lane->traffic.unchecked || message < lane->nPrepared) return;
  lane->nPrepared = message + 1;
  if (lane->link.sends) {
    fillPattern(bufferOf(lane, message), bytesOf(&lane->traffic, message), keyOf(lane, message));
  } else {
    fillUntouched(slotOf(lane, message), lane->stride);
  }
}

/* With an early completion the data may still be on its way. */
static size_t wrongByte(const Lane* lane, int message, size_t nBytes) {
  const double deadline = now() + (lane->traffic.mayCompleteEarly ? kEarlyDataSeconds : 0);
  for (;;) {
    const size_t wrong = firstWrongByte(bufferOf(lane, message), nBytes, keyOf(lane, message));
    if (wrong == nBytes || now() > deadline) return wrong;
    sched_yield();
  }
}

static void checkReceived(const Lane* lane, int message, int reported) {
  const size_t nBytes = bytesOf(&lane->traffic, message);
  if (!lane->traffic.mayCompleteEarly) {
    CHECK(reported == (int)nBytes, "message %d: %d bytes reported, %zu sent", message, reported,
          nBytes);
  }
  const size_t wrong = wrongByte(lane, message, nBytes);
  CHECK(wrong == nBytes, "message %d of %zu bytes: wrong from byte %zu on", message, nBytes, wrong);
  const uint8_t* slot = slotOf(lane, message);
  const uint8_t* buffer = bufferOf(lane, message);
  CHECK(isUntouched(slot, buffer - slot) &&
            isUntouched(buffer + nBytes, slot + lane->stride - buffer - nBytes),
        "message %d of %zu bytes: bytes around it were written", message, nBytes);
}

/* The slot that the plugin is to write its request to holds something else before. */
static void* staleRequest(const Traffic* traffic) {
  static int stale;
  return traffic->mayCompleteEarly ? (void*)NCCL_NET_OPTIONAL_RECV_COMPLETION : (void*)&stale;
}

static ncclResult_t post(Lane* lane, uint8_t* buffer, void** request) {
  const Plugin* plugin = lane->plugin;
  const Traffic* traffic = &lane->traffic;
  if (lane->link.sends) {
    return plugin->calls->isend(plugin, lane->link.comm, buffer, bytesOf(traffic, lane->nPosted),
                                lane->memory, request);
  }
  return plugin->calls->irecv(plugin, lane->link.comm, buffer, traffic->capacity, lane->memory,
                              request);
}

ncclResult_t tryPost(Lane* lane, bool* posted) {
  const int message = lane->nPosted;
  void* const stale = staleRequest(&lane->traffic);
  void* request = stale;
  *posted = false;
  prepareBuffer(lane, message);
  const ncclResult_t result = post(lane, bufferOf(lane, message), &request);
  if (result != ncclSuccess) return result;
  CHECK(request != stale, "the request was not written");
  if (request == NULL) return ncclSuccess;
  lane->requests[message % lane->traffic.window] = request;
  ++lane->nPosted;
  *posted = true;
  return ncclSuccess;
}

static ncclResult_t tryTest(Lane* lane, bool* isDone) {
  int done = -1, reported = -1;
  const int message = lane->nDone;
  void* request = lane->requests[message % lane->traffic.window];
  *isDone = false;
  const ncclResult_t result = lane->plugin->calls->test(lane->plugin, request, &done, &reported);
  if (result != ncclSuccess) return result;
  CHECK(done != -1, "test did not say whether the request is done");
  if (!done) return ncclSuccess;
  if (!lane->link.sends && !lane->traffic.unchecked) checkReceived(lane, message, reported);
  lane->lastBytes = reported;
  ++lane->nDone;
  *isDone = true;
  return ncclSuccess;
}

ncclResult_t tryVisit(Lane* lane, bool* moved) {
  const bool mayPost =
      lane->nPosted < lane->traffic.nMessages && lane->nPosted - lane->nDone < lane->traffic.window;
  bool posted = false, done = false;
  ncclResult_t result = mayPost ? tryPost(lane, &posted) : ncclSuccess;
  if (result == ncclSuccess && lane->nDone < lane->nPosted) result = tryTest(lane, &done);
  *moved = posted || done;
  return result;
}

bool postNext(Lane* lane) {
  bool posted = false;
  checkResult(tryPost(lane, &posted), lane->link.sends ? "isend" : "irecv");
  return posted;
}

bool visitLane(Lane* lane) {
  bool moved = false;
  checkResult(tryVisit(lane, &moved),
              lane->link.sends ? "isend, or its test," : "irecv, or its test,");
  return moved;
}

void finishLanes(Lane* lanes, int count) {
  for (bool busy = true; busy;) {
    bool moved = false;
    busy = false;
    for (int i = 0; i < count; ++i) {
      moved = visitLane(&lanes[i]) || moved;
      busy = busy || lanes[i].nDone < lanes[i].traffic.nMessages;
    }
    if (!moved) sched_yield();
  }
}

typedef struct {
  Lane* lanes;
  int count;
} Lanes;

static void* finishAll(void* argument) {
  const Lanes* all = argument;
  finishLanes(all->lanes, all->count);
  return NULL;
}

void runLanes(Lane* lanes, int count) {
  Lanes all = {lanes, count};
  joinThread(startThread(finishAll, &all));
}

void runLink(Side* side, Link link, const Traffic* traffic) {
  Lane lane = openLane(side, link, traffic);
  runLanes(&lane, 1);
  closeLane(&lane);
  closeLink(side, link);
}

void runTraffic(Side* side, int sender, const Traffic* traffic) {
  runLink(side, openLink(side, sender), traffic);
}
