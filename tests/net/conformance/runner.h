/* Runs a case in processes of its own, so that one that crashes or hangs harms no other. */
#ifndef CINCH_TESTS_NET_CONFORMANCE_RUNNER_H_
#define CINCH_TESTS_NET_CONFORMANCE_RUNNER_H_

#include "tests/net/conformance/cases.h"
#include "tests/net/conformance/options.h"

typedef struct {
  char text[4096]; /* empty: it passed */
} Verdict;

Verdict runCase(const Options* options, int version, const Case* test);

/* Which versions the plugin exports, bit 0 for v8; -1 where it cannot be loaded, which is printed.
 * Asked in another process: what forks later should not have threads of the plugin's. */
int exportedVersions(const char* path);

#endif
