#include "tests/net/conformance/cases.h"

#include "tests/net/conformance/lane.h"

const Case kCases[] = {
    {.name = "properties", .run = runProperties},
    {.name = "init_again", .run = runInitAgain},
    {.name = "reload", .run = runReload},
    {.name = "listen_only", .run = runListenOnly},
    {.name = "connect_first", .run = runConnectFirst},
    {.name = "connect_returns", .run = runConnectReturns},
    {.name = "accept_returns", .run = runAcceptReturns},
    {.name = "reconnect", .run = runReconnect},
    {.name = "releases", .run = runReleases},
    {.name = "fifo", .run = runFifo},
    {.name = "oversized_receive", .run = runOversizedReceive},
    {.name = "zero_bytes", .run = runZeroBytes},
    {.name = "sizes", .run = runSizes},
    {.name = "large", .run = runLarge},
    {.name = "misaligned", .run = runMisaligned},
    {.name = "early_completion", .run = runEarlyCompletion, .oldestVersion = 9},
    {.name = "send_first", .run = runSendFirst},
    {.name = "receiver_closes_first", .run = runReceiverClosesFirst},
    {.name = "in_flight", .run = runInFlight},
    {.name = "beyond_limit", .run = runBeyondLimit},
    {.name = "grouped_receives", .run = runGroupedReceives},
    {.name = "many_connections", .run = runManyConnections},
    {.name = "threads", .run = runThreads},
    {.name = "setup_during_traffic", .run = runSetupDuringTraffic},
    {.name = "both_ends", .run = runManyConnections, .oneProcess = true},
    {.name = "send_too_large", .run = runSendTooLarge},
    {.name = "close_in_flight", .run = runCloseInFlight},
    {.name = "peer_killed_receiving", .run = runPeerKilledReceiving, .peerDies = true},
    {.name = "peer_killed_sending", .run = runPeerKilledSending, .peerDies = true},
};
const int kCaseCount = sizeof kCases / sizeof kCases[0];

void checkTraffic(Side* side) {
  const Traffic traffic = {.capacity = 5000, .nMessages = 12, .window = kSteps};
  runTraffic(side, 0, &traffic);
  runTraffic(side, 1, &traffic);
}
