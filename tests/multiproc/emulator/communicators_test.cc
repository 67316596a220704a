// How communicators are made from one another, and how they end.
#include <thread>

#include "tests/multiproc/emulator/support.h"

namespace cinch::test {
namespace {

TEST(Split, OrdersByKeyThenByRank) {
  runRanks(4, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    ncclComm_t half = nullptr, same = nullptr;
    EXPECT_NCCL(ncclCommSplit(comm, process.rank() % 2, -process.rank(), &half, nullptr));
    EXPECT_EQ(rankIn(half), process.rank() < 2 ? 1 : 0);
    EXPECT_EQ(sumOver(half, 1 << process.rank()), process.rank() % 2 == 0 ? 5 : 10);
    EXPECT_NCCL(ncclCommSplit(comm, 7, 0, &same, nullptr));
    EXPECT_EQ(rankIn(same), process.rank());
    EXPECT_NCCL(ncclCommDestroy(comm));
    EXPECT_EQ(sumOver(same, 1 << process.rank()), 15) << "a child outlives its parent";
    EXPECT_NCCL(ncclCommDestroy(half));
    EXPECT_NCCL(ncclCommDestroy(same));
  });
}

TEST(Split, LeavesOutWhoHasNoColour) {
  runRanks(3, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    ncclComm_t rest = comm;
    const int colour = process.rank() == 0 ? NCCL_SPLIT_NOCOLOR : 1;
    EXPECT_NCCL(ncclCommSplit(comm, colour, 0, &rest, nullptr));
    if (process.rank() == 0) {
      EXPECT_EQ(rest, nullptr);
    } else {
      EXPECT_EQ(sumOver(rest, process.rank()), 3);
      EXPECT_NCCL(ncclCommDestroy(rest));
    }
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(Split, InAGroupGivesHandlesAtItsEnd) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    ncclComm_t first = nullptr, second = nullptr;
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclCommSplit(comm, 0, 0, &first, nullptr));
    EXPECT_NCCL(ncclCommSplit(comm, 0, -process.rank(), &second, nullptr));
    EXPECT_EQ(first, nullptr);
    EXPECT_NCCL(ncclGroupEnd());
    EXPECT_EQ(rankIn(first), process.rank());
    EXPECT_EQ(rankIn(second), 1 - process.rank());
    EXPECT_EQ(sumOver(second, 1), 2);
    for (const ncclComm_t it : {comm, first, second}) EXPECT_NCCL(ncclCommDestroy(it));
  });
}

// The first rank, which made the id, is the one that is gone.
TEST(Shrink, GoesOnWithoutADeadRank) {
  runRanks(3,
           [](RankProcess& process) {
             const ncclComm_t comm = process.createCommunicator();
             process.barrier();
             if (process.rank() == 1) process.kill(0);
             if (process.rank() == 0) pause();
             Stream stream;
             int value = 1;
             EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, stream));
             int excluded[] = {0};
             ncclComm_t smaller = nullptr;
             EXPECT_NCCL(ncclCommShrink(comm, excluded, 1, &smaller, nullptr, NCCL_SHRINK_ABORT));
             stream.wait();
             EXPECT_EQ(rankIn(smaller), process.rank() - 1);
             EXPECT_EQ(sumOver(smaller, 5), 10);
             EXPECT_NCCL(ncclCommDestroy(smaller));
             EXPECT_NCCL(ncclCommAbort(comm));
           },
           {.expectedToDie = 0});
}

TEST(Shrink, ChecksWhoIsExcluded) {
  runRanks(1, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    ncclComm_t smaller = nullptr;
    int self[] = {0}, absent[] = {7};
    EXPECT_EQ(ncclCommShrink(comm, self, 1, &smaller, nullptr, 0), ncclInvalidArgument);
    EXPECT_EQ(ncclCommShrink(comm, absent, 1, &smaller, nullptr, 0), ncclInvalidArgument);
    EXPECT_EQ(ncclCommShrink(comm, absent, 0, &smaller, nullptr, 0), ncclInvalidArgument);
    EXPECT_EQ(ncclCommShrink(comm, nullptr, 1, &smaller, nullptr, 0), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(Revoke, EndsCommunicationButNotSplits) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    EXPECT_EQ(ncclCommRevoke(comm, 3), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    int value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr),
              ncclInvalidUsage);
    EXPECT_EQ(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
    EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
    ncclComm_t child = nullptr;
    EXPECT_NCCL(ncclCommSplit(comm, 0, 0, &child, nullptr));
    EXPECT_EQ(sumOver(child, 1), 2);
    EXPECT_NCCL(ncclCommDestroy(child));
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(InitAll, MakesAllRanksOfOneProcess) {
  runRanks(1, [](RankProcess&) {
    ncclComm_t comms[3] = {};
    EXPECT_NCCL(ncclCommInitAll(comms, 3, nullptr));
    Stream streams[3];
    int sums[3] = {1, 2, 4};
    EXPECT_NCCL(ncclGroupStart());
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(rankIn(comms[i]), i);
      EXPECT_NCCL(ncclAllReduce(&sums[i], &sums[i], 1, ncclInt32, ncclSum, comms[i], streams[i]));
    }
    EXPECT_NCCL(ncclGroupEnd());
    for (int i = 0; i < 3; ++i) {
      streams[i].wait();
      EXPECT_EQ(sums[i], 7);
    }
    for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
    EXPECT_EQ(ncclCommInitAll(comms, 0, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclCommInitAll(nullptr, 1, nullptr), ncclInvalidArgument);
    const int absent[] = {99};
    EXPECT_EQ(ncclCommInitAll(comms, 1, absent), ncclInvalidArgument);
  });
}

TEST(Registration, KeepsWhatItIsGiven) {
  runRanks(1, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    char buffer[16];
    void* handle = nullptr;
    ncclWindow_t window = nullptr;
    EXPECT_NCCL(ncclCommRegister(comm, buffer, sizeof buffer, &handle));
    EXPECT_NCCL(
        ncclCommWindowRegister(comm, buffer, sizeof buffer, &window, NCCL_WIN_COLL_SYMMETRIC));
    EXPECT_EQ(ncclCommWindowRegister(comm, buffer, 16, &window, 2), ncclInvalidArgument);
    EXPECT_EQ(ncclCommDeregister(comm, window), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommDeregister(comm, handle));
    EXPECT_EQ(ncclCommDeregister(comm, handle), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommWindowDeregister(comm, window));
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace cinch::test
