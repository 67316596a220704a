#include "tests/net/conformance/failure.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int failureFd = STDERR_FILENO;
static int printsLog = 0;
static char lastWarning[512];

void reportFailuresTo(int fd) {
  failureFd = fd;
}
void printPluginLog(int yes) {
  printsLog = yes;
}

void fail(const char* format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text / 2, format, args);
  va_end(args);
  pthread_mutex_lock(&mutex); /* never given back: the first reason is the one that counts */
  if (lastWarning[0] != '\0') {
    const size_t length = strlen(text);
    snprintf(text + length, sizeof text - length - 1, "; the plugin's last warning: %s",
             lastWarning);
  }
  strcat(text, "\n");
  const ssize_t written = write(failureFd, text, strlen(text));
  _exit(written > 0 ? 1 : 2);
}

void checkResult(ncclResult_t result, const char* function) {
  CHECK(result == ncclSuccess, "%s gives error %d", function, (int)result);
}

void pluginLogger(ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                  const char* format, ...) {
  (void)flags;
  char text[sizeof lastWarning];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  pthread_mutex_lock(&mutex);
  if (level == NCCL_LOG_WARN) memcpy(lastWarning, text, sizeof text);
  if (printsLog) fprintf(stderr, "[%d] %s:%d level %d: %s\n", getpid(), file, line, level, text);
  pthread_mutex_unlock(&mutex);
}
