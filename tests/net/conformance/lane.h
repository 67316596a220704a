/* Messages over one direction of one connection, driven as NCCL's progress thread does it: each
 * visit posts at most one and tests the oldest only. Every byte is checked: the messages are filled
 * with a pattern of their own, and what lies around them in memory must stay as it was. */
#ifndef CINCH_TESTS_NET_CONFORMANCE_LANE_H_
#define CINCH_TESTS_NET_CONFORMANCE_LANE_H_

#include "tests/net/conformance/side.h"

/* NCCL has 8 requests in flight; a case may try more than a plugin must take. */
enum { kSteps = 8, kMaxWindow = NCCL_NET_MAX_REQUESTS + 8 };

/* The same on both ends. */
typedef struct {
  size_t (*bytesOf)(int message); /* null: `capacity` for all */
  size_t capacity;                /* of every receive */
  int nMessages;
  int window;            /* at most so many at a time */
  size_t misalignment;   /* of every buffer */
  bool mayCompleteEarly; /* says so to irecv, as NCCL does where the data itself shows that it came
                          */
  bool unchecked;        /* for measurements: nothing is written or compared */
} Traffic;

typedef struct {
  Traffic traffic;
  const Plugin* plugin;
  Link link;
  uint8_t* slots; /* window x stride */
  size_t stride;
  void* memory; /* their registration */
  void* requests[kMaxWindow];
  int nPrepared;
  int nPosted;
  int nDone;
  int lastBytes; /* of the message done last, as reported */
} Lane;

/* Service thread. */
Lane openLane(Side* side, Link link, const Traffic* traffic);
void closeLane(Lane* lane);

/* Progress thread: what the plugin answered. `posted` is false where it takes no more for now. */
ncclResult_t tryPost(Lane* lane, bool* posted);
/* Posts and asks, as far as there is something to. `moved`: one of them did something. */
ncclResult_t tryVisit(Lane* lane, bool* moved);
/* The same where an error is the end of the case. */
bool postNext(Lane* lane);
bool visitLane(Lane* lane);

/* Progress thread: until all messages are done. */
void finishLanes(Lane* lanes, int count);
/* On a thread of their own, until all is done. */
void runLanes(Lane* lanes, int count);
/* The usual case: all messages, and the end of the connection. */
void runLink(Side* side, Link link, const Traffic* traffic);
void runTraffic(Side* side, int sender, const Traffic* traffic);

#endif
