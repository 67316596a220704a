// Communicators whose calls return before they are carried out.
#include <thread>

#include "tests/multiproc/emulator/support.h"

namespace cinch::test {
namespace {

ncclConfig_t nonBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

ncclComm_t makeNonBlocking(RankProcess& process) {
  ncclConfig_t config = nonBlocking();
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, process.nRanks(), process.exchangeId(), process.rank(),
                                   &config),
            ncclInProgress);
  EXPECT_NE(comm, nullptr) << "the handle is there at once";
  EXPECT_EQ(settledState(comm), ncclSuccess);
  return comm;
}

TEST(NonBlocking, EnqueuesNothingBeforeSuccess) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = makeNonBlocking(process);
    Stream stream;
    int nSeen = 0, nEarly = 0;
    for (int call = 0; call < 50; ++call) {
      int mine = process.rank() + 1, sum = 0;
      EXPECT_EQ(ncclAllReduce(&mine, &sum, 1, ncclInt32, ncclSum, comm, stream), ncclInProgress);
      const cudaError_t queried = cudaStreamQuery(stream);
      // Still in progress after the question: so it was when it was asked.
      ncclResult_t state = ncclSuccess;
      EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
      nSeen += state == ncclInProgress;
      nEarly += state == ncclInProgress && queried != cudaSuccess;
      EXPECT_EQ(settledState(comm), ncclSuccess);
      stream.wait();
      EXPECT_EQ(sum, 3);
    }
    EXPECT_GT(nSeen, 0);
    // The helper thread enqueues and then reports success: a question may fall in between.
    EXPECT_LE(nEarly, nSeen / 2 + 1) << "something is on the stream too early";
    EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
    EXPECT_EQ(settledState(comm), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(NonBlocking, RefusesCallsWhileItWorks) {
  runRanks(2, [](RankProcess& process) {
    ncclConfig_t config = nonBlocking();
    ncclComm_t comm = nullptr;
    const ncclUniqueId id = process.exchangeId();
    if (process.rank() == 1) process.barrier();
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, process.rank(), &config), ncclInProgress);
    if (process.rank() == 0) {
      int value = 0;
      ncclComm_t child = nullptr;
      EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr),
                ncclInvalidArgument);
      EXPECT_EQ(ncclCommCount(comm, &value), ncclInvalidArgument);
      EXPECT_EQ(ncclCommSplit(comm, 0, 0, &child, nullptr), ncclInvalidArgument);
      EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
      process.barrier();
    }
    EXPECT_EQ(settledState(comm), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(NonBlocking, SplitGivesItsHandleWithSuccess) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = makeNonBlocking(process);
    ncclComm_t child = nullptr;
    EXPECT_EQ(ncclCommSplit(comm, 0, -process.rank(), &child, nullptr), ncclInProgress);
    EXPECT_EQ(settledState(comm), ncclSuccess);
    ASSERT_NE(child, nullptr);
    EXPECT_EQ(rankIn(child), 1 - process.rank());
    int value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, child, nullptr), ncclInProgress)
        << "the child inherits the configuration";
    EXPECT_EQ(settledState(child), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(value, 2);
    EXPECT_NCCL(ncclCommDestroy(child));
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

// The other rank never comes.
TEST(NonBlocking, AbortEndsAnInitThatWaits) {
  runRanks(1, [](RankProcess& process) {
    ncclConfig_t config = nonBlocking();
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, process.exchangeId(), 0, &config), ncclInProgress);
    EXPECT_NCCL(ncclCommAbort(comm));
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclInvalidArgument) << "it is gone";
  });
}

TEST(NonBlocking, DoesNotMixWithBlocking) {
  runRanks(1, [](RankProcess& process) {
    const ncclComm_t blocking = process.createCommunicator();
    const ncclComm_t other = makeNonBlocking(process);
    int value = 3;
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, blocking, nullptr));
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, other, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommDestroy(blocking));
    EXPECT_NCCL(ncclCommDestroy(other));
  });
}

}  // namespace
}  // namespace cinch::test
