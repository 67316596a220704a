/* How a case says that it has failed: it writes why, and its process ends. */
#ifndef CINCH_TESTS_NET_CONFORMANCE_FAILURE_H_
#define CINCH_TESTS_NET_CONFORMANCE_FAILURE_H_

#include "net_plugin/abi/net_common.h"

/* Where reasons go from now on, and whether the plugin's log lines are printed. */
void reportFailuresTo(int fd);
void printPluginLog(int yes);

/* Ends the process with status 1. Safe from any thread. Adds the plugin's last warning. */
_Noreturn __attribute__((format(printf, 1, 2))) void fail(const char* format, ...);

/* What init is given. */
void pluginLogger(ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                  const char* format, ...);

#define CHECK(condition, ...)            \
  do {                                   \
    if (!(condition)) fail(__VA_ARGS__); \
  } while (0)

/* A call of the plugin that has to succeed. */
#define CALL(plugin, function, ...) \
  checkResult((plugin)->calls->function((plugin), ##__VA_ARGS__), #function)

/* Fails, naming the function, where the result is not ncclSuccess. */
void checkResult(ncclResult_t result, const char* function);

#endif
