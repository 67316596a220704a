/* Loading, devices, and how connections come and go. */
#include <dirent.h>
#include <sched.h>
#include <string.h>

#include "tests/net/conformance/cases.h"
#include "tests/net/conformance/failure.h"
#include "tests/net/conformance/lane.h"

static void checkProperties(const Properties* p, int dev) {
  const size_t kMaxBytes = (size_t)1 << 40; /* NCCL refuses more, and 0 */
  CHECK(p->name != NULL && p->name[0] != '\0', "device %d has no name", dev);
  CHECK(p->ptrSupport & NCCL_PTR_HOST, "device %d does not take host memory", dev);
  CHECK(p->speed > 0, "device %d: a speed of %d Mbit/s", dev, p->speed);
  CHECK(p->latency >= 0, "device %d: a latency of %g us", dev, p->latency);
  CHECK(p->maxComms > 0, "device %d: maxComms is %d", dev, p->maxComms);
  CHECK(p->maxRecvs >= 1, "device %d: maxRecvs is %d", dev, p->maxRecvs);
  CHECK(p->nPhysical >= 1, "device %d stands for %d devices", dev, p->nPhysical);
  CHECK(p->netDeviceType == NCCL_NET_DEVICE_HOST, "device %d wants offload", dev);
  CHECK(p->maxP2pBytes > 0 && p->maxP2pBytes <= kMaxBytes, "device %d: maxP2pBytes is %zu", dev,
        p->maxP2pBytes);
  CHECK(p->maxCollBytes > 0 && p->maxCollBytes <= kMaxBytes, "device %d: maxCollBytes is %zu", dev,
        p->maxCollBytes);
}

static Properties propertiesOf(const Side* side, int dev) {
  Properties properties;
  CALL(side->plugin, getProperties, dev, &properties);
  return properties;
}

static int deviceCount(const Side* side) {
  int count = 0;
  CALL(side->plugin, devices, &count);
  return count;
}

static bool sameProperties(const Properties* a, const Properties* b) {
  return strcmp(a->name, b->name) == 0 && a->guid == b->guid && a->speed == b->speed &&
         a->port == b->port && a->maxComms == b->maxComms && a->maxP2pBytes == b->maxP2pBytes;
}

static void* askAgainAndAgain(void* argument) {
  const Side* side = argument;
  const int count = deviceCount(side);
  const Properties first = propertiesOf(side, count - 1);
  for (int i = 0; i < 2000; ++i) {
    const Properties again = propertiesOf(side, count - 1);
    CHECK(sameProperties(&first, &again), "the properties change");
  }
  return NULL;
}

void runProperties(Side* side) {
  enum { kThreads = 4 };
  pthread_t threads[kThreads];
  const int count = deviceCount(side);
  for (int dev = 0; dev < count; ++dev) {
    const Properties properties = propertiesOf(side, dev);
    checkProperties(&properties, dev);
    for (int other = 0; other < dev; ++other) {
      CHECK(strcmp(properties.name, propertiesOf(side, other).name) != 0,
            "devices %d and %d have the same name", other, dev);
    }
  }
  for (int i = 0; i < kThreads; ++i) threads[i] = startThread(askAgainAndAgain, side);
  for (int i = 0; i < kThreads; ++i) joinThread(threads[i]);
}

/* What NCCL does when its last communicator is gone and a new one comes. */
void runInitAgain(Side* side) {
  for (int i = 0; i < 3; ++i) {
    checkTraffic(side);
    CALL(side->plugin, finalize);
    CALL(side->plugin, init, pluginLogger);
    CHECK(deviceCount(side) > 0, "no device after another init");
  }
  checkTraffic(side);
}

void runReload(Side* side) {
  for (int i = 0; i < 3; ++i) {
    checkTraffic(side);
    stopPlugin(side->plugin);
    startPlugin(side->plugin, side->path, side->version);
  }
  checkTraffic(side);
}

static void* acceptSoon(Side* side, void* listener) {
  void* comm = NULL;
  while ((comm = tryAccept(side, listener)) == NULL) sched_yield();
  return comm;
}

static void* connectSoon(Side* side, Handle* handle) {
  void* comm = NULL;
  while ((comm = tryConnect(side, handle)) == NULL) sched_yield();
  return comm;
}

static const Traffic kShort = {.capacity = 3000, .nMessages = 10, .window = kSteps};

void runListenOnly(Side* side) {
  Handle handle;
  for (int i = 0; i < 20; ++i) {
    CALL(side->plugin, closeListen, listenOn(side, &handle));
  }
  checkTraffic(side);
}

/* Rank 1 connects over and over before rank 0 has accepted once. */
void runConnectFirst(Side* side) {
  Handle handle;
  Link link = {.sends = side->rank == 1};
  if (side->rank == 0) {
    void* listener = listenOn(side, &handle);
    tellPeer(&side->channel, &handle, sizeof handle);
    meetPeer(&side->channel);
    link.comm = acceptSoon(side, listener);
  } else {
    hearPeer(&side->channel, &handle, sizeof handle);
    for (int i = 0; link.comm == NULL && i < 1000; ++i) link.comm = tryConnect(side, &handle);
    meetPeer(&side->channel);
    if (link.comm == NULL) link.comm = connectSoon(side, &handle);
  }
  runLink(side, link, &kShort);
}

static const int kPromptMs = 3000;

/* Rank 0 does nothing until rank 1's connect has returned. */
void runConnectReturns(Side* side) {
  Handle handle;
  Link link = {.sends = side->rank == 1};
  if (side->rank == 0) {
    void* listener = listenOn(side, &handle);
    tellPeer(&side->channel, &handle, sizeof handle);
    CHECK(peerSpoke(&side->channel, kPromptMs), "connect blocks until the peer accepts");
    meetPeer(&side->channel);
    link.comm = acceptSoon(side, listener);
  } else {
    hearPeer(&side->channel, &handle, sizeof handle);
    link.comm = tryConnect(side, &handle);
    meetPeer(&side->channel);
    if (link.comm == NULL) link.comm = connectSoon(side, &handle);
  }
  runLink(side, link, &kShort);
}

/* Rank 1 does nothing until rank 0's accept has returned, with nothing. */
void runAcceptReturns(Side* side) {
  Handle handle;
  Link link = {.sends = side->rank == 1};
  if (side->rank == 0) {
    void* listener = listenOn(side, &handle);
    for (int i = 0; i < 100; ++i) {
      CHECK(tryAccept(side, listener) == NULL, "accept gave a connection that nobody asked for");
    }
    tellPeer(&side->channel, &handle, sizeof handle);
    link.comm = acceptSoon(side, listener);
  } else {
    CHECK(peerSpoke(&side->channel, kPromptMs), "accept blocks until the peer connects");
    hearPeer(&side->channel, &handle, sizeof handle);
    link.comm = connectSoon(side, &handle);
  }
  runLink(side, link, &kShort);
}

void runReconnect(Side* side) {
  for (int i = 0; i < 6; ++i) runTraffic(side, i % 2, &kShort);
}

static int countEntries(const char* folder) {
  int count = 0;
  DIR* entries = opendir(folder);
  CHECK(entries != NULL, "cannot read %s", folder);
  while (readdir(entries) != NULL) ++count;
  closedir(entries);
  return count;
}

/* A plugin may keep some for the next connection, but no more for each. What is closed may take a
 * moment to go. */
static void checkNoMoreThan(const char* folder, int before, const char* what) {
  const double deadline = now() + 2;
  int after = countEntries(folder);
  while (after > before && now() < deadline) {
    sched_yield();
    after = countEntries(folder);
  }
  CHECK(after <= before, "%d more %s after 20 connections were closed", after - before, what);
}

void runReleases(Side* side) {
  for (int i = 0; i < 4; ++i) runTraffic(side, i % 2, &kShort);
  meetPeer(&side->channel);
  const int nFiles = countEntries("/proc/self/fd");
  const int nThreads = countEntries("/proc/self/task");
  for (int i = 0; i < 20; ++i) runTraffic(side, i % 2, &kShort);
  checkNoMoreThan("/proc/self/fd", nFiles, "descriptors");
  checkNoMoreThan("/proc/self/task", nThreads, "threads");
  meetPeer(&side->channel);
}
