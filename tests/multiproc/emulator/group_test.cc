// Groups, point-to-point, several streams and several communicators.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "tests/multiproc/emulator/support.h"

namespace cinch::test {
namespace {

std::vector<int> message(int from, int to, size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), from * 1000000 + to * 10000);
  return values;
}

void sendTo(const std::vector<int>& values, int peer, ncclComm_t comm, cudaStream_t stream) {
  EXPECT_NCCL(ncclSend(values.data(), values.size(), ncclInt32, peer, comm, stream));
}

void receiveFrom(std::vector<int>* values, int peer, ncclComm_t comm, cudaStream_t stream) {
  EXPECT_NCCL(ncclRecv(values->data(), values->size(), ncclInt32, peer, comm, stream));
}

// All ranks send to all, themselves included, in one group; messages longer than all slots too.
TEST(Group, AllToAll) {
  for (const size_t count : {0, 1, 1000, 700000}) {
    runRanks(4, [&](RankProcess& process) {
      const ncclComm_t comm = process.createCommunicator();
      std::vector<std::vector<int>> sent;
      std::vector<std::vector<int>> received(process.nRanks(), std::vector<int>(count, -1));
      for (int peer = 0; peer < process.nRanks(); ++peer) {
        sent.push_back(message(process.rank(), peer, count));
      }
      Stream stream;
      EXPECT_NCCL(ncclGroupStart());
      for (int peer = 0; peer < process.nRanks(); ++peer) {
        receiveFrom(&received[peer], peer, comm, stream);
        sendTo(sent[peer], peer, comm, stream);
      }
      EXPECT_NCCL(ncclGroupEnd());
      stream.wait();
      for (int peer = 0; peer < process.nRanks(); ++peer) {
        EXPECT_EQ(received[peer], message(peer, process.rank(), count)) << "from rank " << peer;
      }
      EXPECT_NCCL(ncclCommDestroy(comm));
    });
  }
}

// The k-th send to a peer meets the k-th receive from it, also over groups and lengths.
TEST(Group, MessagesToOnePeerKeepTheirOrder) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    const std::vector<size_t> counts = {3, 50000, 0, 1, 200000, 7};
    std::vector<std::vector<int>> buffers;
    for (size_t i = 0; i < counts.size(); ++i) {
      buffers.push_back(process.rank() == 0 ? message(0, static_cast<int>(i), counts[i])
                                            : std::vector<int>(counts[i], -1));
    }
    Stream stream;
    EXPECT_NCCL(ncclGroupStart());
    for (size_t i = 0; i < counts.size(); ++i) {
      // The sender cuts its calls into other groups than the receiver.
      if (process.rank() == 0 && i == 2) {
        EXPECT_NCCL(ncclGroupEnd());
        EXPECT_NCCL(ncclGroupStart());
      }
      if (process.rank() == 0) {
        sendTo(buffers[i], 1, comm, stream);
      } else {
        receiveFrom(&buffers[i], 0, comm, stream);
      }
    }
    EXPECT_NCCL(ncclGroupEnd());
    stream.wait();
    for (size_t i = 0; i < counts.size(); ++i) {
      EXPECT_EQ(buffers[i], message(0, static_cast<int>(i), counts[i]));
    }
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

// [send, allreduce] on one rank against [allreduce, receive] on the other: order within a group
// does not bind point-to-point to collectives.
TEST(Group, CollectivesAndMessagesRunSideBySide) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    std::vector<int> sum(100000, process.rank() + 1);
    std::vector<int> extra =
        process.rank() == 0 ? message(0, 1, 900000) : std::vector<int>(900000, -1);
    Stream stream;
    EXPECT_NCCL(ncclGroupStart());
    if (process.rank() == 0) sendTo(extra, 1, comm, stream);
    EXPECT_NCCL(
        ncclAllReduce(sum.data(), sum.data(), sum.size(), ncclInt32, ncclSum, comm, stream));
    if (process.rank() == 1) receiveFrom(&extra, 0, comm, stream);
    EXPECT_NCCL(ncclGroupEnd());
    stream.wait();
    EXPECT_EQ(sum, std::vector<int>(sum.size(), 3));
    EXPECT_EQ(extra, message(0, 1, 900000));
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(Group, NestedGroupsLaunchAtTheOutermostEnd) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    int first = process.rank();
    int second = 10 + process.rank();
    Stream stream;
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclAllReduce(&first, &first, 1, ncclInt32, ncclSum, comm, stream));
    EXPECT_NCCL(ncclGroupEnd());
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(first, process.rank()) << "launched before the outermost ncclGroupEnd";
    EXPECT_NCCL(ncclAllReduce(&second, &second, 1, ncclInt32, ncclSum, comm, stream));
    EXPECT_NCCL(ncclGroupEnd());
    stream.wait();
    EXPECT_EQ(first, 1);
    EXPECT_EQ(second, 21);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "no group is open";
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

// Streams of one group are joined: none goes on before all came, and all see the results.
TEST(Group, JoinsItsStreams) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    std::vector<float> a(50000, 0);
    std::vector<float> b(50000, 0);
    std::vector<float> c(50000, 0);
    const std::vector<float> ones(50000, 1);
    {
      Stream streamA;
      Stream streamB;
      const size_t nBytes = a.size() * sizeof(float);
      EXPECT_EQ(cudaMemcpyAsync(b.data(), ones.data(), nBytes, cudaMemcpyDefault, streamB),
                cudaSuccess);
      EXPECT_NCCL(ncclGroupStart());
      // Reads on stream A what stream B is writing: right only if A waits for B.
      EXPECT_NCCL(ncclAllReduce(b.data(), a.data(), a.size(), ncclFloat32, ncclSum, comm, streamA));
      EXPECT_NCCL(
          ncclAllReduce(ones.data(), c.data(), c.size(), ncclFloat32, ncclSum, comm, streamB));
      EXPECT_NCCL(ncclGroupEnd());
      streamA.wait();
      EXPECT_EQ(c, std::vector<float>(c.size(), 2)) << "stream A passed before B's part was done";
      streamB.wait();
    }
    EXPECT_EQ(a, std::vector<float>(a.size(), 2));
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

// A stream's work before a call is done before the call reads, and its work after sees the result.
TEST(Streams, OrderWorkAroundCalls) {
  runRanks(3, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    const size_t count = 100000;
    std::vector<int64_t> source(count, process.rank() + 1);
    std::vector<int64_t> work(count, -1);
    std::vector<int64_t> result(count, -1);
    const size_t nBytes = count * sizeof(int64_t);
    Stream stream;
    for (int round = 0; round < 5; ++round) {
      EXPECT_EQ(cudaMemcpyAsync(work.data(), source.data(), nBytes, cudaMemcpyDefault, stream),
                cudaSuccess);
      EXPECT_NCCL(ncclAllReduce(work.data(), work.data(), count, ncclInt64, ncclSum, comm, stream));
      EXPECT_EQ(cudaMemcpyAsync(result.data(), work.data(), nBytes, cudaMemcpyDefault, stream),
                cudaSuccess);
    }
    stream.wait();
    EXPECT_EQ(result, std::vector<int64_t>(count, 6));
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

// Calls of one communicator on different streams keep their order of issue.
TEST(Streams, TwoOfOneCommunicator) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    std::vector<std::vector<int>> buffers(20, std::vector<int>(3000, process.rank() + 1));
    {
      Stream streams[2];
      for (size_t i = 0; i < buffers.size(); ++i) {
        EXPECT_NCCL(ncclAllReduce(buffers[i].data(), buffers[i].data(), 3000, ncclInt32, ncclSum,
                                  comm, streams[i % 2]));
      }
      streams[0].wait();
      streams[1].wait();
    }
    for (const std::vector<int>& buffer : buffers) EXPECT_EQ(buffer, std::vector<int>(3000, 3));
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
}

TEST(Communicators, TwoAtOnce) {
  runRanks(3, [](RankProcess& process) {
    const ncclComm_t comms[2] = {process.createCommunicator(), process.createCommunicator()};
    std::vector<int> a(40000, 1);
    std::vector<int> b(40000, 2);
    {
      Stream streams[2];
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(
          ncclAllReduce(a.data(), a.data(), a.size(), ncclInt32, ncclSum, comms[0], streams[0]));
      EXPECT_NCCL(
          ncclAllReduce(b.data(), b.data(), b.size(), ncclInt32, ncclSum, comms[1], streams[1]));
      EXPECT_NCCL(ncclGroupEnd());
      streams[1].wait();
      streams[0].wait();
    }
    EXPECT_EQ(a, std::vector<int>(a.size(), 3));
    EXPECT_EQ(b, std::vector<int>(b.size(), 6));
    EXPECT_NCCL(ncclCommDestroy(comms[0]));
    EXPECT_NCCL(ncclCommDestroy(comms[1]));
  });
}

// Two communicators that two threads of each process use at the same time.
TEST(Communicators, UsedByThreads) {
  runRanks(2, [](RankProcess& process) {
    const ncclComm_t comms[2] = {process.createCommunicator(), process.createCommunicator()};
    const auto work = [&](int which) {
      Stream stream;
      for (int round = 0; round < 30; ++round) {
        std::vector<float> values(5000 + round, static_cast<float>(which + 1));
        EXPECT_NCCL(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum,
                                  comms[which], stream));
        stream.wait();
        EXPECT_EQ(values, std::vector<float>(values.size(), 2.0f * (which + 1)));
      }
    };
    std::thread other(work, 0);
    work(1);
    other.join();
    EXPECT_NCCL(ncclCommDestroy(comms[0]));
    EXPECT_NCCL(ncclCommDestroy(comms[1]));
  });
}

// One thread makes several ranks, as single-process programs do.
TEST(Communicators, MadeInOneGroupByOneThread) {
  runRanks(1, [](RankProcess& process) {
    constexpr int kRanks = 3;
    ncclUniqueId id;
    EXPECT_NCCL(ncclGetUniqueId(&id));
    std::vector<ncclComm_t> comms(kRanks);
    EXPECT_NCCL(ncclGroupStart());
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_NCCL(ncclCommInitRank(&comms[rank], kRanks, id, rank));
    }
    EXPECT_NCCL(ncclGroupEnd());
    std::vector<int> values = {1, 10, 100};
    {
      Stream streams[kRanks];
      EXPECT_NCCL(ncclGroupStart());
      for (int rank = 0; rank < kRanks; ++rank) {
        EXPECT_NCCL(ncclAllReduce(&values[rank], &values[rank], 1, ncclInt32, ncclSum, comms[rank],
                                  streams[rank]));
      }
      EXPECT_NCCL(ncclGroupEnd());
      for (const Stream& stream : streams) stream.wait();
    }
    EXPECT_EQ(values, std::vector<int>(kRanks, 111));
    for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
    EXPECT_EQ(process.nRanks(), 1);
  });
}

}  // namespace
}  // namespace cinch::test
