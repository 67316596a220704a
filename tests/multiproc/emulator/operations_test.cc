// Operations that the program makes, collectives made of messages, simulated and captured groups.
#include "tests/multiproc/emulator/support.h"

namespace cinch::test {
namespace {

// Destroyed, and its handle in use again, before the group ends.
TEST(PreMulSum, TakesTheScalarOfItsCreation) {
  runRanks(3, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    Stream stream;
    int scalar = process.rank() + 2, mine = 10, sum = 0;
    ncclRedOp_t op = ncclSum, next = ncclSum;
    EXPECT_NCCL(ncclRedOpCreatePreMulSum(&op, &scalar, ncclInt32, ncclScalarHostImmediate, comm));
    scalar = 1000;
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclAllReduce(&mine, &sum, 1, ncclInt32, op, comm, stream));
    EXPECT_NCCL(ncclRedOpDestroy(op, comm));
    EXPECT_NCCL(ncclRedOpCreatePreMulSum(&next, &scalar, ncclInt32, ncclScalarHostImmediate, comm));
    EXPECT_EQ(next, op);
    EXPECT_NCCL(ncclGroupEnd());
    stream.wait();
    EXPECT_EQ(sum, 10 * (2 + 3 + 4));
    EXPECT_NCCL(ncclRedOpDestroy(next, comm));
    EXPECT_EQ(ncclRedOpDestroy(next, comm), ncclInvalidArgument);
    EXPECT_EQ(ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(PreMulSum, ReadsADeviceScalarWhenItRuns) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    Stream stream;
    float* scalar = nullptr;
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&scalar), sizeof *scalar), cudaSuccess);
    ncclRedOp_t op = ncclSum;
    EXPECT_NCCL(ncclRedOpCreatePreMulSum(&op, scalar, ncclFloat32, ncclScalarDevice, comm));
    const float value = 0.5f;
    ASSERT_EQ(cudaMemcpyAsync(scalar, &value, sizeof value, cudaMemcpyHostToDevice, stream),
              cudaSuccess);
    float in[4] = {2, 4, 6, 8}, out[2] = {};
    EXPECT_NCCL(ncclReduceScatter(in, out, 2, ncclFloat32, op, comm, stream));
    stream.wait();
    EXPECT_EQ(out[0], process.rank() == 0 ? 2 : 6);
    EXPECT_EQ(out[1], process.rank() == 0 ? 4 : 8);
    EXPECT_EQ(ncclAllReduce(in, in, 1, ncclInt32, op, comm, stream), ncclInvalidArgument);
    ncclComm_t other = nullptr;
    EXPECT_NCCL(ncclCommSplit(comm, 0, 0, &other, nullptr));
    EXPECT_EQ(ncclAllReduce(in, in, 1, ncclFloat32, op, other, stream), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommDestroy(other));
    EXPECT_NCCL(ncclCommDestroy(comm));
    EXPECT_EQ(cudaFree(scalar), cudaSuccess);
  });
}

TEST(Messages, AlltoAllGatherAndScatter) {
  runRanks(3, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    const int rank = process.rank();
    Stream stream;
    int in[3] = {rank * 10, rank * 10 + 1, rank * 10 + 2}, out[3] = {-1, -1, -1};
    EXPECT_NCCL(ncclAlltoAll(in, out, 1, ncclInt32, comm, stream));
    stream.wait();
    for (int peer = 0; peer < 3; ++peer) EXPECT_EQ(out[peer], peer * 10 + rank);
    EXPECT_NCCL(ncclGather(in, rank == 1 ? out : nullptr, 1, ncclInt32, 1, comm, stream));
    stream.wait();
    for (int peer = 0; peer < 3 && rank == 1; ++peer) EXPECT_EQ(out[peer], peer * 10);
    EXPECT_NCCL(ncclScatter(rank == 2 ? in : nullptr, out, 1, ncclInt32, 2, comm, stream));
    stream.wait();
    EXPECT_EQ(out[0], 20 + rank);
    EXPECT_NCCL(ncclAlltoAll(nullptr, nullptr, 0, ncclInt32, comm, stream));
    EXPECT_EQ(ncclAlltoAll(nullptr, out, 1, ncclInt32, comm, stream), ncclInvalidArgument);
    EXPECT_EQ(ncclGather(in, out, 1, ncclInt32, 3, comm, stream), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(Simulation, LaunchesNothing) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    int value = 5;
    ncclSimInfo_t info{sizeof info, NCCL_SIM_INFO_MAGIC, NCCL_VERSION_CODE, 0};
    if (process.rank() == 0) {
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr));
      EXPECT_NCCL(ncclGroupSimulateEnd(&info));
      EXPECT_GT(info.estimatedTime, 0);
      EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
      EXPECT_EQ(value, 5);
    }
    EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidUsage) << "no group is open";
    EXPECT_EQ(sumOver(comm, 1), 2);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

// Every rank groups two pairs of a circle, all on one stream.
TEST(Groups, OfCyclicCommunicatorsGoOn) {
  runRanks(3, [](RankProcess& process) {
    const int rank = process.rank();
    const ncclComm_t world = process.createCommunicator();
    ncclComm_t pairs[3] = {};
    for (int low = 0; low < 3; ++low) {
      const bool in = rank == low || rank == (low + 1) % 3;
      EXPECT_NCCL(ncclCommSplit(world, in ? 0 : NCCL_SPLIT_NOCOLOR, rank, &pairs[low], nullptr));
    }
    Stream stream;
    for (int round = 1; round < 20; ++round) {
      int next = round, before = round;
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(ncclAllReduce(&next, &next, 1, ncclInt32, ncclSum, pairs[rank], stream));
      EXPECT_NCCL(
          ncclAllReduce(&before, &before, 1, ncclInt32, ncclSum, pairs[(rank + 2) % 3], stream));
      EXPECT_NCCL(ncclGroupEnd());
      stream.wait();
      EXPECT_EQ(next, 2 * round);
      EXPECT_EQ(before, 2 * round);
    }
    for (const ncclComm_t comm : {world, pairs[rank], pairs[(rank + 2) % 3]}) {
      EXPECT_NCCL(ncclCommDestroy(comm));
    }
  });
}

// Launches of a graph and eager calls on another stream: nothing but the library orders them.
TEST(Graphs, ReplayInOrderWithEagerCalls) {
  runRanks(3, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    Stream stream, other;
    int in = 0, out = 0, value = 0;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_NCCL(ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, comm, stream));
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, comm, stream));
    EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, other));
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "only one of the streams is captured";
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    for (int step = 1; step < 50; ++step) {
      in = step;
      value = 100 * step;
      EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
      EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, other));
      EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
      stream.wait();
      other.wait();
      EXPECT_EQ(out, 3 * step);
      EXPECT_EQ(value, 300 * step);
    }
    EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace cinch::test
