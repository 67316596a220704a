/* One of the two ends of a case: a process, or a thread where the case wants both in one. Its own
 * thread plays NCCL's service thread (set-up and tear-down); messages move on another. */
#ifndef CINCH_TESTS_NET_CONFORMANCE_SIDE_H_
#define CINCH_TESTS_NET_CONFORMANCE_SIDE_H_

#include <pthread.h>

#include "tests/net/conformance/channel.h"
#include "tests/net/conformance/plugin.h"

typedef struct {
  int rank; /* 0 or 1 */
  Channel channel;
  Plugin* plugin;
  const char* path; /* of the plugin's library */
  int version;
  int dev;
  int nOpened; /* links, so far */
} Side;

enum { kMaxLinks = 64 }; /* that are opened at once */

typedef struct {
  char bytes[NCCL_NET_HANDLE_MAXSIZE];
} Handle;

/* One direction of one connection; the peer's end of it is the other way around. */
typedef struct {
  bool sends;
  int number; /* the same on both ends: what is sent depends on it */
  void* comm;
} Link;

/* Loads and starts the plugin, and stops it: what NCCL does for its first and last communicator. */
void startPlugin(Plugin* plugin, const char* path, int version);
void stopPlugin(Plugin* plugin);

void* listenOn(Side* side, Handle* handle);
/* Null: not yet. Once there is a connection the listener is closed. */
void* tryConnect(Side* side, Handle* handle);
void* tryAccept(Side* side, void* listener);

/* Both sides call this with as many links, of which `sends` is set. Connects and accepts in turn
 * until all are open, as NCCL's service thread does. */
void openLinks(Side* side, Link* links, int count);
/* The one that rank `sender` sends on. */
Link openLink(Side* side, int sender);
void closeLink(Side* side, Link link);

/* Messages move on a thread of their own, one for each connection: `run` is what it does. */
pthread_t startThread(void* (*run)(void*), void* argument);
void joinThread(pthread_t thread);

/* Seconds of a clock that only goes forward. */
double now(void);

#endif
