/* The command line. */
#ifndef CINCH_TESTS_NET_CONFORMANCE_OPTIONS_H_
#define CINCH_TESTS_NET_CONFORMANCE_OPTIONS_H_

#include <stdbool.h>
#include <stddef.h>

#include "tests/net/conformance/plugin.h"

typedef enum { kNoBench, kPingPong, kStream, kCheck } Bench;

enum { kMaxRankSettings = 16 };

typedef struct {
  const char* path; /* of the plugin's library */
  bool versions[kVersions];
  bool versionsGiven;
  const char* cases; /* comma-separated; null: all; with ^ in front: all others */
  int timeoutSeconds;
  int dev;
  char* rankSettings[kMaxRankSettings]; /* "RANK:NAME=VALUE" */
  int nRankSettings;
  bool list;
  bool verbose;
  Bench bench;
  size_t bytes;
  int connections;
  int window;
  int messages; /* on each connection, of what is checked */
  int pauseMicroseconds;
  double seconds;
  double warmup;
  const char* listenFile;
  const char* connectFile;
} Options;

/* Prints what is wrong and ends the process where the line makes no sense. */
Options parseOptions(int argc, char** argv);
/* Puts what is set for this rank into the environment of its process. */
void setRankEnvironment(const Options* options, int rank);
/* Whether `name` is one of a comma-separated list. */
bool listHas(const char* list, const char* name);

#endif
