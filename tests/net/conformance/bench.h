/* How fast a plugin is, through the same table: message times and bytes per second. */
#ifndef CINCH_TESTS_NET_CONFORMANCE_BENCH_H_
#define CINCH_TESTS_NET_CONFORMANCE_BENCH_H_

#include "tests/net/conformance/options.h"

/* Of the newest version that is wanted and exported (bits as in runner.h). Rank 0 measures and
 * prints one line of JSON. */
int runBench(const Options* options, int exported);

#endif
