#include "tests/net/conformance/side.h"

#include <sched.h>
#include <time.h>

#include "tests/net/conformance/failure.h"

void startPlugin(Plugin* plugin, const char* path, int version) {
  const char* problem = openPlugin(plugin, path, version);
  CHECK(problem == NULL, "cannot load the plugin: %s", problem);
  const char* missing = plugin->calls->missing(plugin);
  CHECK(missing == NULL, "%s is null in the table", missing);
  CALL(plugin, init, pluginLogger);
  int count = 0;
  CALL(plugin, devices, &count);
  CHECK(count > 0, "the plugin has no device");
}

void stopPlugin(Plugin* plugin) {
  CALL(plugin, finalize);
  closePlugin(plugin);
}

void* listenOn(Side* side, Handle* handle) {
  void* listener = NULL;
  CALL(side->plugin, listen, side->dev, handle, &listener);
  CHECK(listener != NULL, "listen gave no listener");
  return listener;
}

void* tryConnect(Side* side, Handle* handle) {
  void* comm = side; /* stale */
  CALL(side->plugin, connect, side->dev, handle, &comm);
  CHECK(comm != side, "connect did not write the connection");
  return comm;
}

void* tryAccept(Side* side, void* listener) {
  void* comm = side;
  CALL(side->plugin, accept, listener, &comm);
  CHECK(comm != side, "accept did not write the connection");
  if (comm != NULL) CALL(side->plugin, closeListen, listener);
  return comm;
}

void openLinks(Side* side, Link* links, int count) {
  void* listeners[kMaxLinks];
  Handle mine[kMaxLinks] = {0}, theirs[kMaxLinks];
  CHECK(count <= kMaxLinks, "more than %d links", kMaxLinks);
  for (int i = 0; i < count; ++i) {
    links[i].comm = NULL;
    links[i].number = side->nOpened++;
    if (!links[i].sends) listeners[i] = listenOn(side, &mine[i]);
  }
  exchange(&side->channel, mine, theirs, (size_t)count * sizeof(Handle));
  for (int nOpen = 0; nOpen < count; sched_yield()) {
    for (int i = 0; i < count; ++i) {
      if (links[i].comm != NULL) continue;
      links[i].comm = links[i].sends ? tryConnect(side, &theirs[i]) : tryAccept(side, listeners[i]);
      nOpen += links[i].comm != NULL;
    }
  }
}

Link openLink(Side* side, int sender) {
  Link link = {.sends = side->rank == sender};
  openLinks(side, &link, 1);
  return link;
}

void closeLink(Side* side, Link link) {
  if (link.sends) {
    CALL(side->plugin, closeSend, link.comm);
  } else {
    CALL(side->plugin, closeRecv, link.comm);
  }
}

pthread_t startThread(void* (*run)(void*), void* argument) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, argument) == 0, "cannot start a thread");
  return thread;
}

void joinThread(pthread_t thread) {
  pthread_join(thread, NULL);
}

double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
