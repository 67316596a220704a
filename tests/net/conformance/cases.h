/* The cases: each is run by two sides at once, with the plugin freshly loaded and started. */
#ifndef CINCH_TESTS_NET_CONFORMANCE_CASES_H_
#define CINCH_TESTS_NET_CONFORMANCE_CASES_H_

#include "tests/net/conformance/side.h"

typedef struct {
  const char* name;
  void (*run)(Side* side);
  bool oneProcess;   /* two threads of one process, else two processes */
  bool peerDies;     /* rank 1 kills itself */
  int oldestVersion; /* 0: any */
} Case;

extern const Case kCases[];
extern const int kCaseCount;

/* A short exchange both ways: the plugin still works. */
void checkTraffic(Side* side);

/* cases_setup.c */
void runProperties(Side* side);
void runInitAgain(Side* side);
void runReload(Side* side);
void runListenOnly(Side* side);
void runConnectFirst(Side* side);
void runConnectReturns(Side* side);
void runAcceptReturns(Side* side);
void runReconnect(Side* side);
void runReleases(Side* side);

/* cases_messages.c */
void runFifo(Side* side);
void runOversizedReceive(Side* side);
void runZeroBytes(Side* side);
void runSizes(Side* side);
void runLarge(Side* side);
void runMisaligned(Side* side);
void runEarlyCompletion(Side* side);
void runSendFirst(Side* side);
void runReceiverClosesFirst(Side* side);
void runInFlight(Side* side);
void runBeyondLimit(Side* side);

/* cases_many.c */
void runManyConnections(Side* side);
void runThreads(Side* side);
void runSetupDuringTraffic(Side* side);

/* cases_groups.c */
void runGroupedReceives(Side* side);

/* cases_failure.c */
void runSendTooLarge(Side* side);
void runCloseInFlight(Side* side);
void runPeerKilledReceiving(Side* side);
void runPeerKilledSending(Side* side);

#endif
