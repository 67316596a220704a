// What happens when something goes wrong: dead peers, aborts, missing ranks, wrong arguments.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/multiproc/emulator/rank_processes.h"

namespace cinch::test {
namespace {

constexpr size_t kLarge = 8 << 20;  // elements: an AllReduce that cannot end between two looks

ncclResult_t asyncError(ncclComm_t comm) {
  ncclResult_t error = ncclInternalError;
  EXPECT_NCCL(ncclCommGetAsyncError(comm, &error));
  return error;
}

// Polls like a watchdog until the communicator reports an error; the deadline of the test bounds
// it.
ncclResult_t awaitAsyncError(ncclComm_t comm) {
  ncclResult_t error = asyncError(comm);
  while (error == ncclSuccess) {
    std::this_thread::yield();
    error = asyncError(comm);
  }
  return error;
}

bool isRunning(cudaStream_t stream) {
  return cudaStreamQuery(stream) == cudaErrorNotReady;
}

void expectLastErrorNames(const std::string& text) {
  const std::string got = ncclGetLastError(nullptr);
  EXPECT_NE(got.find(text), std::string::npos) << got;
}

// One rank is killed while all reduce. Its neighbours report it and abort, which releases the rest.
TEST(DeadPeer, IsReportedByAllRanks) {
  runRanks(4,
           [](RankProcess& process) {
             const ncclComm_t comm = process.createCommunicator();
             cudaStream_t stream = nullptr;
             ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
             std::vector<float> values(kLarge, 1);
             process.barrier();
             if (process.rank() == 0) process.kill(2);
             // Rank 2 may get this far, or not; it never gets through all rounds.
             ncclResult_t result = ncclSuccess;
             for (int round = 0; round < 1000 && result == ncclSuccess; ++round) {
               result = ncclAllReduce(values.data(), values.data(), kLarge, ncclFloat32, ncclSum,
                                      comm, stream);
               while (isRunning(stream) && asyncError(comm) == ncclSuccess)
                 std::this_thread::yield();
             }
             EXPECT_EQ(awaitAsyncError(comm), ncclRemoteError);
             EXPECT_EQ(
                 ncclAllReduce(values.data(), values.data(), 1, ncclFloat32, ncclSum, comm, stream),
                 ncclRemoteError);
             EXPECT_TRUE(isRunning(stream)) << "or the program goes on with what was not reduced";
             EXPECT_NCCL(ncclCommAbort(comm));
             EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
             EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
           },
           {.expectedToDie = 2});
}

TEST(DeadPeer, IsNamed) {
  runRanks(2,
           [](RankProcess& process) {
             const ncclComm_t comm = process.createCommunicator();
             process.barrier();
             if (process.rank() == 0) process.kill(1);
             if (process.rank() == 1) pause();
             int value = 0;
             EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr));
             EXPECT_EQ(awaitAsyncError(comm), ncclRemoteError);
             expectLastErrorNames("rank 1");
             EXPECT_NCCL(ncclCommDestroy(comm));
           },
           {.expectedToDie = 1});
}

// The peer never calls: as in NCCL that is a hang, which abort ends, on the stream too.
TEST(Abort, EndsACollectiveThatWaitsForAnAbsentPeer) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    int values[3] = {1, 2, 3};
    if (process.rank() == 0) {
      for (int& value : values) {
        EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, stream));
      }
      EXPECT_TRUE(isRunning(stream));
      EXPECT_EQ(asyncError(comm), ncclSuccess);
      std::thread watchdog([&] { EXPECT_NCCL(ncclCommAbort(comm)); });
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      watchdog.join();
      process.barrier();
    } else {
      process.barrier();
      EXPECT_NCCL(ncclCommAbort(comm));
    }
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  });
}

// Abort from another thread releases one that is blocked in ncclCommDestroy.
TEST(Abort, EndsADestroyThatWaits) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    int value = 0;
    if (process.rank() == 0) {
      EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr));
      ncclResult_t destroyed = ncclInternalError;
      std::thread destroyer([&] { destroyed = ncclCommDestroy(comm); });
      EXPECT_NCCL(ncclCommAbort(comm));
      destroyer.join();
      // Whoever comes second finds the communicator gone, which is all right too.
      EXPECT_TRUE(destroyed == ncclSuccess || destroyed == ncclInvalidArgument) << destroyed;
    }
    process.barrier();
    if (process.rank() == 1) EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(Mismatch, HangsUntilAborted) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    std::vector<float> values(1000, 1);
    // Rank 0 calls one collective more than rank 1.
    for (int call = 0; call < 2 - process.rank(); ++call) {
      EXPECT_NCCL(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum,
                                comm, stream));
    }
    if (process.rank() == 1) {
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    }
    process.barrier();
    EXPECT_EQ(isRunning(stream), process.rank() == 0);
    process.barrier();
    EXPECT_NCCL(ncclCommAbort(comm));
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  });
}

TEST(Init, ReportsRanksThatDisagreeOnTheirNumber) {
  runRanks(2, [](RankProcess& process) {
    const ncclUniqueId id = process.exchangeId();
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2 + process.rank(), id, process.rank()), ncclRemoteError);
    EXPECT_EQ(comm, nullptr);
    expectLastErrorNames("expects");
    expectLastErrorNames("rank 1");
    process.barrier();
  });
}

TEST(Init, ReportsARankThatIsTakenTwice) {
  runRanks(2, [](RankProcess& process) {
    const ncclUniqueId id = process.exchangeId();
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 3, id, 1), ncclRemoteError);
    expectLastErrorNames("same rank");
    process.barrier();
  });
}

// A root that is gone: the process that made the id has ended.
TEST(Init, FailsWhenTheRootIsGone) {
  runRanks(1, [](RankProcess&) {
    int ids[2];
    ASSERT_EQ(pipe(ids), 0);
    const pid_t maker = fork();
    if (maker == 0) {
      ncclUniqueId id;
      const bool made = ncclGetUniqueId(&id) == ncclSuccess;
      _exit(made && write(ids[1], &id, sizeof id) == sizeof id ? 0 : 1);
    }
    ncclUniqueId id;
    ASSERT_EQ(read(ids[0], &id, sizeof id), ssize_t{sizeof id});
    int status = -1;
    ASSERT_EQ(waitpid(maker, &status, 0), maker);
    ASSERT_EQ(status, 0);
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 1), ncclRemoteError);
    expectLastErrorNames("ncclGetUniqueId");
  });
}

// The end of an id belongs to others: it is zero when made, and what is written there is ignored.
TEST(Init, LeavesTheTailOfTheIdAlone) {
  runRanks(2, [](RankProcess& process) {
    ncclUniqueId id = process.exchangeId();
    for (size_t i = 50; i < sizeof id; ++i) EXPECT_EQ(id.internal[i], 0) << "byte " << i;
    memset(id.internal + 50, 0x5a + process.rank(), sizeof id - 50);
    ncclComm_t comm = nullptr;
    EXPECT_NCCL(ncclCommInitRank(&comm, 2, id, process.rank()));
    int value = 1;
    EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr));
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(value, 2);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

// A port that nobody listens on now.
int freePort() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(bind(fd, generic, length), 0);
  EXPECT_EQ(getsockname(fd, generic, &length), 0);
  close(fd);
  return ntohs(address.sin_port);
}

TEST(Init, MeetsAtTheAddressInNcclCommId) {
  setenv("NCCL_COMM_ID", ("127.0.0.1:" + std::to_string(freePort())).c_str(), 1);
  runRanks(3, [](RankProcess& process) {
    ncclUniqueId id;
    EXPECT_NCCL(ncclGetUniqueId(&id));  // every process by itself
    ncclComm_t comm = nullptr;
    EXPECT_NCCL(ncclCommInitRank(&comm, 3, id, process.rank()));
    int rank = -1;
    EXPECT_NCCL(ncclCommUserRank(comm, &rank));
    EXPECT_EQ(rank, process.rank());
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
  unsetenv("NCCL_COMM_ID");
}

TEST(Arguments, OfInitAreChecked) {
  runRanks(1, [](RankProcess& process) {
    const ncclUniqueId id = process.exchangeId();
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
    EXPECT_EQ(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, -1), ncclInvalidArgument);
    EXPECT_EQ(ncclCommInitRank(&comm, 1, ncclUniqueId{}, 0), ncclInvalidArgument);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 7;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
    expectLastErrorNames("blocking");
    config.magic = 0;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
    EXPECT_EQ(comm, nullptr);
    ncclConfig_t good = NCCL_CONFIG_INITIALIZER;
    good.commName = "test";
    EXPECT_NCCL(ncclCommInitRankConfig(&comm, 1, id, 0, &good));
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(Arguments, OfCallsAreChecked) {
  runRanks(1, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    float x = 1;
    const auto allReduce = [&](const void* from, void* to, int type, int op, ncclComm_t on) {
      return ncclAllReduce(from, to, 1, static_cast<ncclDataType_t>(type),
                           static_cast<ncclRedOp_t>(op), on, nullptr);
    };
    EXPECT_EQ(allReduce(nullptr, &x, ncclFloat32, ncclSum, comm), ncclInvalidArgument);
    EXPECT_EQ(allReduce(&x, nullptr, ncclFloat32, ncclSum, comm), ncclInvalidArgument);
    EXPECT_EQ(allReduce(&x, &x, ncclNumTypes, ncclSum, comm), ncclInvalidArgument);
    EXPECT_EQ(allReduce(&x, &x, ncclFloat32, 17, comm), ncclInvalidArgument);
    EXPECT_EQ(allReduce(&x, &x, ncclFloat8e4m3, ncclSum, comm), ncclInvalidArgument);
    EXPECT_EQ(allReduce(&x, &x, ncclFloat32, ncclSum, nullptr), ncclInvalidArgument);
    EXPECT_EQ(allReduce(&x, &x, ncclFloat32, ncclSum, reinterpret_cast<ncclComm_t>(&x)),
              ncclInvalidArgument);
    EXPECT_EQ(ncclBroadcast(&x, &x, 1, ncclFloat32, 1, comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclBcast(&x, 1, ncclFloat32, -1, comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclSend(&x, 1, ncclFloat32, 0, comm, nullptr), ncclInvalidUsage) << "to itself only";
    EXPECT_EQ(ncclCommCount(comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclCommCount(nullptr, nullptr), ncclInvalidArgument);
    EXPECT_NCCL(ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, comm, nullptr));
    EXPECT_NCCL(ncclCommDestroy(comm));
    EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument) << "destroyed twice";
    EXPECT_EQ(allReduce(&x, &x, ncclFloat32, ncclSum, comm), ncclInvalidArgument);
  });
}

// One bad call in a group: the group launches nothing and says so.
TEST(Arguments, ABadCallSpoilsItsGroup) {
  runRanks(1, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    const float from = 3;
    float to = 0;
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclAllReduce(&from, &to, 1, ncclFloat32, ncclSum, comm, nullptr));
    EXPECT_EQ(ncclBroadcast(&from, &to, 1, ncclFloat32, 5, comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(to, 0);
    EXPECT_NCCL(ncclAllReduce(&from, &to, 1, ncclFloat32, ncclSum, comm, nullptr));
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(to, 3);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(Queries, AnswerWithTheCommunicatorsFacts) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    int version = 0, count = 0, device = -1, rank = -1;
    EXPECT_NCCL(ncclGetVersion(&version));
    EXPECT_NCCL(ncclCommCount(comm, &count));
    EXPECT_NCCL(ncclCommCuDevice(comm, &device));
    EXPECT_NCCL(ncclCommUserRank(comm, &rank));
    EXPECT_EQ(version, 22809);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(rank, process.rank());
    EXPECT_EQ(asyncError(comm), ncclSuccess);
    for (int result = 0; result <= ncclNumResults; ++result) {
      EXPECT_NE(std::string(ncclGetErrorString(static_cast<ncclResult_t>(result))), "");
    }
    void* memory = nullptr;
    EXPECT_NCCL(ncclMemAlloc(&memory, 1000));
    EXPECT_NE(memory, nullptr);
    EXPECT_NCCL(ncclMemFree(memory));
    EXPECT_NCCL(ncclCommFinalize(comm));
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace cinch::test
