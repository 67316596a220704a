#include "tests/net/conformance/runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/net/conformance/failure.h"

enum { kRanks = 2 };

static void runSide(Side* side, const Case* test) {
  test->run(side);
  if (!test->peerDies) meetPeer(&side->channel);
}

typedef struct {
  Side side;
  const Case* test;
} SideThread;

static void* runSideThread(void* argument) {
  SideThread* thread = argument;
  runSide(&thread->side, thread->test);
  return NULL;
}

/* Both sides of a case that wants one process. */
static void runSideThreads(SideThread sides[kRanks]) {
  const pthread_t other = startThread(runSideThread, &sides[1]);
  runSideThread(&sides[0]);
  joinThread(other);
}

/* Ends with exit, so that what the plugin does when a program ends is run too. */
_Noreturn static void runProcess(const Options* options, int version, const Case* test, int rank,
                                 const int sockets[kRanks]) {
  Plugin plugin;
  SideThread sides[kRanks];
  setRankEnvironment(options, rank);
  startPlugin(&plugin, options->path, version);
  for (int i = 0; i < kRanks; ++i) {
    sides[i] = (SideThread){.side = {.rank = i,
                                     .channel = socketChannel(sockets[i], i),
                                     .plugin = &plugin,
                                     .path = options->path,
                                     .version = version,
                                     .dev = options->dev},
                            .test = test};
  }
  if (test->oneProcess) {
    runSideThreads(sides);
  } else {
    close(sockets[1 - rank]);
    runSide(&sides[rank].side, test);
  }
  stopPlugin(&plugin);
  exit(0);
}

/* Collects what is written until all writers are gone. False: there were some still. */
static bool readReasons(int fd, int timeoutSeconds, Verdict* verdict) {
  const double deadline = now() + timeoutSeconds;
  size_t length = 0;
  for (;;) {
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    const double left = deadline - now();
    if (left <= 0 || poll(&poller, 1, (int)(left * 1000) + 1) <= 0) return false;
    char chunk[sizeof verdict->text] = "";
    const ssize_t got = read(fd, chunk, sizeof chunk - 1);
    if (got <= 0) return true;
    /* The first reason is the cause; the other side only says that its peer is gone. */
    if (length > 0) continue;
    length = strcspn(chunk, "\n");
    memcpy(verdict->text, chunk, length);
  }
}

/* A side that crashed comes before what the other one said of it. */
static void judgeExit(int rank, int status, const Case* test, Verdict* verdict) {
  const int killedBy = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (test->peerDies && rank == 1 && killedBy == SIGKILL) return;
  if (killedBy != 0) {
    snprintf(verdict->text, sizeof verdict->text, "rank %d ended by signal %d (%s)", rank, killedBy,
             strsignal(killedBy));
  } else if (status != 0 && verdict->text[0] == '\0') {
    snprintf(verdict->text, sizeof verdict->text, "rank %d ended with status %d", rank,
             WEXITSTATUS(status));
  }
}

static void killAll(const Options* options, const pid_t* pids, int count, Verdict* verdict) {
  for (int i = 0; i < count; ++i) kill(pids[i], SIGKILL);
  for (int i = 0; i < count; ++i) waitpid(pids[i], NULL, 0);
  if (verdict->text[0] != '\0') return;
  snprintf(verdict->text, sizeof verdict->text, "hangs: killed after %d s",
           options->timeoutSeconds);
}

static void collect(const Options* options, const Case* test, const pid_t* pids, int fd,
                    Verdict* verdict) {
  const int count = test->oneProcess ? 1 : kRanks;
  if (!readReasons(fd, options->timeoutSeconds, verdict)) {
    killAll(options, pids, count, verdict);
    return;
  }
  for (int i = 0; i < count; ++i) {
    int status = 0;
    waitpid(pids[i], &status, 0);
    judgeExit(i, status, test, verdict);
  }
}

Verdict runCase(const Options* options, int version, const Case* test) {
  Verdict verdict = {""};
  int sockets[kRanks], reasons[2];
  pid_t pids[kRanks];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0 ||
      pipe2(reasons, O_CLOEXEC) != 0) {
    snprintf(verdict.text, sizeof verdict.text, "out of descriptors");
    return verdict;
  }
  fflush(NULL);
  for (int rank = 0; rank < (test->oneProcess ? 1 : kRanks); ++rank) {
    pids[rank] = fork();
    if (pids[rank] != 0) continue;
    close(reasons[0]);
    reportFailuresTo(reasons[1]);
    printPluginLog(options->verbose);
    runProcess(options, version, test, rank, sockets);
  }
  close(reasons[1]);
  for (int rank = 0; rank < kRanks; ++rank) close(sockets[rank]);
  collect(options, test, pids, reasons[0], &verdict);
  close(reasons[0]);
  return verdict;
}

_Noreturn static void probe(const char* path) {
  int exported = 0;
  const char* problem = NULL;
  for (int i = 0; i < kVersions; ++i) {
    Plugin plugin;
    problem = openPlugin(&plugin, path, kOldestVersion + i);
    if (problem == NULL) exported |= 1 << i;
  }
  if (exported == 0) fprintf(stderr, "conformance: %s: %s\n", path, problem);
  _exit(exported);
}

int exportedVersions(const char* path) {
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) probe(path);
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 0) return -1;
  return WEXITSTATUS(status);
}
