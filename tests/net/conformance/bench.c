#include "tests/net/conformance/bench.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/net/conformance/failure.h"
#include "tests/net/conformance/lane.h"

typedef struct {
  const Options* options;
  const Side* side;
  Lane lanes[kMaxLinks];
} Run;

/* Messages of no bytes mean the end. */
static void stopSending(Lane* lane, int nEmpty) {
  lane->traffic.capacity = 0;
  lane->traffic.nMessages = lane->nPosted + nEmpty;
}

static void waitForMessage(Lane* lane) {
  for (const int before = lane->nDone; lane->nDone == before;) {
    if (!visitLane(lane)) sched_yield();
  }
}

static int compareTimes(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void printTimes(const Run* run, double* times, int count) {
  qsort(times, (size_t)count, sizeof *times, compareTimes);
  printf(
      "{\"bench\":\"pingpong\",\"version\":\"v%d\",\"bytes\":%zu,\"rounds\":%d,"
      "\"round_trip_us\":{\"min\":%.2f,\"median\":%.2f,\"p99\":%.2f}}\n",
      run->side->version, run->options->bytes, count, 1e6 * times[0], 1e6 * times[count / 2],
      1e6 * times[(int)(0.99 * count)]);
}

enum { kMaxRounds = 1 << 20 };

/* Lane 0 goes there, lane 1 comes back; the receive for what comes back is posted first. */
static int playRounds(Run* run, double* times) {
  int count = 0;
  const double begin = now() + run->options->warmup;
  for (double start = now(); start < begin + run->options->seconds && count < kMaxRounds;) {
    postNext(&run->lanes[1]);
    waitForMessage(&run->lanes[0]);
    waitForMessage(&run->lanes[1]);
    const double end = now();
    if (start >= begin) times[count++] = end - start;
    start = end;
  }
  return count;
}

static void* playFirst(void* argument) {
  Run* run = argument;
  double* times = malloc(kMaxRounds * sizeof *times);
  CHECK(times != NULL, "out of memory");
  const int count = playRounds(run, times);
  stopSending(&run->lanes[0], 1);
  waitForMessage(&run->lanes[0]);
  CHECK(count > 0, "no round was finished");
  printTimes(run, times, count);
  free(times);
  return NULL;
}

static void* playSecond(void* argument) {
  Run* run = argument;
  for (;;) {
    waitForMessage(&run->lanes[0]);
    if (run->lanes[0].lastBytes == 0) return NULL;
    waitForMessage(&run->lanes[1]);
  }
}

/* What a side does that found nothing to do. */
static void rest(const Options* options) {
  if (options->pauseMicroseconds > 0) {
    usleep((useconds_t)options->pauseMicroseconds);
  } else {
    sched_yield();
  }
}

/* Each lane ends with a whole window of empty messages: the receives posted ahead are all met. */
static void* sendStream(void* argument) {
  Run* run = argument;
  const int count = run->options->connections;
  const double end = now() + run->options->warmup + run->options->seconds;
  while (now() < end) {
    bool moved = false;
    for (int i = 0; i < count; ++i) moved = visitLane(&run->lanes[i]) || moved;
    if (!moved) rest(run->options);
  }
  for (int i = 0; i < count; ++i) stopSending(&run->lanes[i], run->options->window);
  finishLanes(run->lanes, count);
  return NULL;
}

/* What arrives between the end of the warm-up and the first empty message. */
typedef struct {
  double begin;
  double end; /* 0: not yet */
  size_t nBytes;
  int nMessages;
} Meter;

static void countMessage(Meter* meter, Lane* lane) {
  const double time = now();
  if (lane->lastBytes == 0) {
    if (meter->end == 0) meter->end = time;
    if (lane->traffic.nMessages == INT_MAX) {
      lane->traffic.nMessages = lane->nDone - 1 + lane->traffic.window;
    }
  } else if (time >= meter->begin && meter->end == 0) {
    meter->nBytes += (size_t)lane->lastBytes;
    ++meter->nMessages;
  }
}

static void printStream(const Run* run, const Meter* meter) {
  const double seconds = meter->end - meter->begin;
  printf(
      "{\"bench\":\"stream\",\"version\":\"v%d\",\"bytes\":%zu,\"connections\":%d,"
      "\"window\":%d,\"seconds\":%.3f,\"messages\":%d,\"gbit_per_s\":%.4f}\n",
      run->side->version, run->options->bytes, run->options->connections, run->options->window,
      seconds, meter->nMessages, 8e-9 * (double)meter->nBytes / seconds);
}

static void* receiveStream(void* argument) {
  Run* run = argument;
  Meter meter = {.begin = now() + run->options->warmup};
  for (bool busy = true; busy;) {
    bool moved = false;
    busy = false;
    for (Lane* lane = run->lanes; lane < run->lanes + run->options->connections; ++lane) {
      const int before = lane->nDone;
      moved = visitLane(lane) || moved;
      if (lane->nDone != before) countMessage(&meter, lane);
      busy = busy || lane->nDone < lane->traffic.nMessages;
    }
    if (!moved) rest(run->options);
  }
  printStream(run, &meter);
  return NULL;
}

/* Every byte is compared; a wrong one, or an error, ends the process. */
static void* exchangeChecked(void* argument) {
  Run* run = argument;
  finishLanes(run->lanes, run->options->connections);
  return NULL;
}

static void* receiveChecked(void* argument) {
  const Run* run = argument;
  const double begin = now();
  exchangeChecked(argument);
  printf(
      "{\"bench\":\"check\",\"version\":\"v%d\",\"bytes\":%zu,\"connections\":%d,"
      "\"messages\":%d,\"seconds\":%.3f}\n",
      run->side->version, run->options->bytes, run->options->connections, run->options->messages,
      now() - begin);
  return NULL;
}

/* Both ways where one alone would be no answer. */
static void runBenchOn(const Options* options, Side* side) {
  const bool isPingPong = options->bench == kPingPong;
  const bool isChecked = options->bench == kCheck;
  const int count = isPingPong ? 2 : options->connections;
  void* (*const jobs[][2])(void*) = {[kPingPong] = {playFirst, playSecond},
                                     [kStream] = {receiveStream, sendStream},
                                     [kCheck] = {receiveChecked, exchangeChecked}};
  const Traffic traffic = {.capacity = options->bytes,
                           .nMessages = isChecked ? options->messages : INT_MAX,
                           .window = isPingPong ? 1 : options->window,
                           .unchecked = !isChecked};
  Run run = {.options = options, .side = side};
  Link links[kMaxLinks];
  for (int i = 0; i < count; ++i) {
    links[i].sends = isPingPong ? side->rank == i : side->rank == 1;
  }
  openLinks(side, links, count);
  for (int i = 0; i < count; ++i) run.lanes[i] = openLane(side, links[i], &traffic);
  meetPeer(&side->channel);
  joinThread(startThread(jobs[options->bench][side->rank], &run));
  meetPeer(&side->channel);
  for (int i = 0; i < count; ++i) {
    closeLane(&run.lanes[i]);
    closeLink(side, links[i]);
  }
}

static void runBenchSide(const Options* options, int version, Channel channel) {
  Plugin plugin;
  setRankEnvironment(options, channel.rank);
  startPlugin(&plugin, options->path, version);
  Side side = {.rank = channel.rank,
               .channel = channel,
               .plugin = &plugin,
               .path = options->path,
               .version = version,
               .dev = options->dev};
  runBenchOn(options, &side);
  stopPlugin(&plugin);
}

static int runBothSides(const Options* options, int version) {
  int sockets[2], status = 1;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0, "out of descriptors");
  fflush(NULL);
  const pid_t pid = fork();
  const int rank = pid == 0;
  close(sockets[1 - rank]);
  runBenchSide(options, version, socketChannel(sockets[rank], rank));
  if (rank == 1) exit(0);
  waitpid(pid, &status, 0);
  return status == 0 ? 0 : 1;
}

int runBench(const Options* options, int exported) {
  int version = 0;
  for (int i = 0; i < kVersions; ++i) {
    if (options->versions[i] && exported & 1 << i) version = kOldestVersion + i;
  }
  printPluginLog(options->verbose);
  CHECK(version != 0, "the plugin has no such version");
  if (options->listenFile != NULL) {
    runBenchSide(options, version, fileChannel(options->listenFile, 0));
  } else if (options->connectFile != NULL) {
    runBenchSide(options, version, fileChannel(options->connectFile, 1));
  } else {
    return runBothSides(options, version);
  }
  return 0;
}
