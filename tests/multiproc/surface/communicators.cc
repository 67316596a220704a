// The lives of communicators: how they are made, used from threads, and ended.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "tests/multiproc/surface/program.h"

namespace surface {
namespace {

constexpr int kCalls = 6;
constexpr size_t kCount = 40003;

struct Buffers {
  Floats in{kCount}, out{kCount};
};

// AllReduces on `comm`, whose ranks are the world's `members`; `rank` is the world's number. The
// first `exactCalls` must be exact, the others compressed.
void reduceRepeatedly(ncclComm_t comm, int rank, const std::vector<int>& members,
                      const std::string& label, int exactCalls, Buffers& buffers) {
  const cudaStream_t stream = makeStream();
  auto& [in, out] = buffers;
  for (int call = 0; call < kCalls; ++call) {
    in.fill(rank, call, stream);
    const ncclResult_t result =
        ncclAllReduce(in.data(), out.data(), kCount, ncclFloat32, ncclSum, comm, stream);
    if (result == ncclInProgress)
      awaitReady(comm);
    else
      check(result, "ncclAllReduce");
    await(comm, stream);
    const auto values = out.read(stream);
    if (call < exactCalls)
      expectExact(values, sumOf(members, call), label);
    else
      expectCompressed(values, sumOf(members, call), label);
    expectSameEverywhere(values, label + std::to_string(call));
  }
  CHECK(cudaStreamDestroy(stream));
}

void reduceRepeatedly(ncclComm_t comm, int rank, const std::vector<int>& members,
                      const std::string& label, int exactCalls = kWarmup) {
  Buffers buffers;
  reduceRepeatedly(comm, rank, members, label, exactCalls, buffers);
}

void expectPlace(ncclComm_t comm, int rank, int ranks) {
  int found = -1;
  CHECK(ncclCommUserRank(comm, &found));
  EXPECT(found == rank);
  CHECK(ncclCommCount(comm, &found));
  EXPECT(found == ranks);
}

void split(const World& world) {
  const ncclComm_t comm = makeWorldComm(world);
  // Even and odd ranks; keys turn the order round.
  ncclComm_t half = nullptr;
  CHECK(ncclCommSplit(comm, world.rank % 2, -world.rank, &half, nullptr));
  std::vector<int> members;
  for (int rank = world.ranks - 1; rank >= 0; --rank)
    if (rank % 2 == world.rank % 2) members.push_back(rank);
  const auto at = std::find(members.begin(), members.end(), world.rank);
  expectPlace(half, static_cast<int>(at - members.begin()), static_cast<int>(members.size()));
  reduceRepeatedly(half, world.rank, members, "half" + std::to_string(world.rank % 2) + "-");
  reduceRepeatedly(comm, world.rank, everybody(world), "whole");
  CHECK(ncclCommDestroy(half));
  CHECK(ncclCommDestroy(comm));
}

void splitWithoutColour(const World& world) {
  const ncclComm_t comm = makeWorldComm(world);
  const bool in = world.rank != 1;
  ncclComm_t rest = reinterpret_cast<ncclComm_t>(const_cast<World*>(&world));
  CHECK(ncclCommSplit(comm, in ? 7 : NCCL_SPLIT_NOCOLOR, 0, &rest, nullptr));
  EXPECT((rest != nullptr) == in);
  if (in) {
    reduceRepeatedly(rest, world.rank, {0, 2}, "rest");
    CHECK(ncclCommDestroy(rest));
  }
  reduceRepeatedly(comm, world.rank, everybody(world), "whole");
  CHECK(ncclCommDestroy(comm));
}

void splitOfASplit(const World& world) {
  const ncclComm_t comm = makeWorldComm(world);
  ncclComm_t child = nullptr, grandchild = nullptr;
  CHECK(ncclCommSplit(comm, 0, world.rank, &child, nullptr));
  CHECK(ncclCommDestroy(comm));
  CHECK(ncclCommSplit(child, world.rank == 2, world.rank, &grandchild, nullptr));
  if (world.rank != 2)
    reduceRepeatedly(grandchild, world.rank, {0, 1}, "grandchild");
  else
    reduceRepeatedly(grandchild, world.rank, {2}, "alone", kCalls);
  reduceRepeatedly(child, world.rank, everybody(world), "child");
  CHECK(ncclCommDestroy(grandchild));
  CHECK(ncclCommDestroy(child));
}

// In a group, the new handles are there when the group ends.
void splitsInAGroup(const World& world) {
  const ncclComm_t a = makeWorldComm(world, "a"), b = makeWorldComm(world, "b");
  ncclComm_t fromA = nullptr, fromB = nullptr;
  CHECK(ncclGroupStart());
  CHECK(ncclCommSplit(a, 0, world.rank, &fromA, nullptr));
  CHECK(ncclCommSplit(b, 0, -world.rank, &fromB, nullptr));
  EXPECT(fromA == nullptr && fromB == nullptr);
  CHECK(ncclGroupEnd());
  reduceRepeatedly(fromA, world.rank, everybody(world), "a");
  reduceRepeatedly(fromB, world.rank, everybody(world), "b");
  for (const ncclComm_t comm : {a, b, fromA, fromB}) CHECK(ncclCommDestroy(comm));
}

void shrink(const World& world) {
  const ncclComm_t comm = makeWorldComm(world);
  reduceRepeatedly(comm, world.rank, everybody(world), "before");
  int excluded[] = {1};
  if (world.rank == 1) {
    CHECK(ncclCommDestroy(comm));
    return;
  }
  ncclComm_t smaller = nullptr;
  CHECK(ncclCommShrink(comm, excluded, 1, &smaller, nullptr, NCCL_SHRINK_DEFAULT));
  expectPlace(smaller, world.rank == 0 ? 0 : 1, 2);
  reduceRepeatedly(smaller, world.rank, {0, 2}, "after");
  CHECK(ncclCommDestroy(smaller));
  CHECK(ncclCommDestroy(comm));
}

void scalable(const World& world) {
  ncclUniqueId ids[2] = {shareId(world, "one", world.rank == 0),
                         shareId(world, "two", world.rank == 1)};
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRankScalable(&comm, world.ranks, world.rank, 2, ids, nullptr));
  reduceRepeatedly(comm, world.rank, everybody(world), "scalable");
  CHECK(ncclCommDestroy(comm));
}

// One process holds all ranks: nothing crosses a network, nothing is compressed.
void initAll(const World& world) {
  ncclComm_t comms[1] = {};
  CHECK(ncclCommInitAll(comms, 1, nullptr));
  reduceRepeatedly(comms[0], world.rank, {world.rank}, "alone", kCalls);
  CHECK(ncclCommDestroy(comms[0]));
}

void manyGenerations(const World& world) {
  // NCCL is free to give every one of them the same address.
  for (int generation = 0; generation < 8; ++generation) {
    const std::string name = "generation" + std::to_string(generation);
    const ncclComm_t comm = makeWorldComm(world, name);
    reduceRepeatedly(comm, world.rank, everybody(world), name + "-");
    if (generation % 2 == 0) CHECK(ncclCommFinalize(comm));
    CHECK(ncclCommDestroy(comm));
  }
}

// Two ranks per process, each driven by a thread of its own.
void ranksAsThreads(const World& world) {
  const int nRanks = 2 * world.ranks;
  const ncclUniqueId id = shareId(world, "threads", world.rank == 0);
  std::vector<int> members(static_cast<size_t>(nRanks));
  for (int rank = 0; rank < nRanks; ++rank) members[static_cast<size_t>(rank)] = rank;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&, rank = 2 * world.rank + i] {
      ncclComm_t comm = nullptr;
      CHECK(ncclCommInitRank(&comm, nRanks, id, rank));
      reduceRepeatedly(comm, rank, members, "thread");
      CHECK(ncclCommDestroy(comm));
    });
  for (std::thread& thread : threads) thread.join();
}

// Two ranks per process, both driven by one thread, in groups.
void ranksOfOneThread(const World& world) {
  const int nRanks = 2 * world.ranks;
  const ncclUniqueId id = shareId(world, "one-thread", world.rank == 0);
  std::vector<int> members;
  for (int rank = 0; rank < nRanks; ++rank) members.push_back(rank);
  ncclComm_t comms[2] = {};
  CHECK(ncclGroupStart());
  for (int i = 0; i < 2; ++i) CHECK(ncclCommInitRank(&comms[i], nRanks, id, 2 * world.rank + i));
  CHECK(ncclGroupEnd());
  const cudaStream_t streams[2] = {makeStream(), makeStream()};
  Floats a(kCount), b(kCount);
  Floats* buffers[2] = {&a, &b};
  for (int call = 0; call < kCalls; ++call) {
    for (int i = 0; i < 2; ++i) buffers[i]->fill(2 * world.rank + i, call, streams[i]);
    CHECK(ncclGroupStart());
    for (int i = 0; i < 2; ++i)
      CHECK(ncclAllReduce(buffers[i]->data(), buffers[i]->data(), kCount, ncclFloat32, ncclSum,
                          comms[i], streams[i]));
    CHECK(ncclGroupEnd());
    for (int i = 0; i < 2; ++i) {
      await(comms[i], streams[i]);
      expectStep(call, buffers[i]->read(streams[i]), sumOf(members, call), "one thread");
      expectSameEverywhere(buffers[i]->read(streams[i]), "one-thread" + std::to_string(call));
    }
  }
  for (const ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm));
}

// Two communicators of one process, each with a thread of its own, at the same time.
void threadsWithCommunicators(const World& world) {
  const ncclComm_t comms[2] = {makeWorldComm(world, "a"), makeWorldComm(world, "b")};
  // Freed by nobody while the other communicator works: cudaFree waits for the whole device, and
  // two ranks that each wait for the other's next call would wait for ever, with plain NCCL as
  // well.
  Buffers buffers[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round)
        reduceRepeatedly(comms[i], world.rank, everybody(world),
                         "thread" + std::to_string(i) + "-" + std::to_string(round) + "-",
                         round == 0 ? kWarmup : 0, buffers[i]);
    });
  for (std::thread& thread : threads) thread.join();
  for (const ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm));
}

// A pipeline's receive runs on rank 0's device and waits for what rank 1 sends only after its own
// part of a sum. Neither rank may wait for its device in between, whatever the sum does for the
// first time.
void sumBesideAReceive(const World& world) {
  const ncclComm_t sums = makeWorldComm(world, "sums");
  const ncclComm_t pipeline = makeWorldComm(world, "pipeline");
  const cudaStream_t sumStream = makeStream(), pipelineStream = makeStream();
  Floats values(kCount), handedOn(1000);
  for (int call = 0; call < kCalls; ++call) {
    values.fill(world.rank, call, sumStream);
    handedOn.fill(world.rank, call, pipelineStream);
    if (world.rank == 0)
      CHECK(ncclRecv(handedOn.data(), 1000, ncclFloat32, 1, pipeline, pipelineStream));
    CHECK(
        ncclAllReduce(values.data(), values.data(), kCount, ncclFloat32, ncclSum, sums, sumStream));
    if (world.rank == 1)
      CHECK(ncclSend(handedOn.data(), 1000, ncclFloat32, 0, pipeline, pipelineStream));
    await(sums, sumStream);
    await(pipeline, pipelineStream);
    expectStep(call, values.read(sumStream), sumOf(everybody(world), call), "sum");
    expectExact(
        handedOn.read(pipelineStream), [&](size_t i) { return valueOf(1, call, i); }, "handed on");
  }
  CHECK(ncclCommDestroy(sums));
  CHECK(ncclCommDestroy(pipeline));
}

ncclConfig_t nonBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

void nonBlockingLife(const World& world) {
  ncclConfig_t config = nonBlocking();
  const ncclComm_t comm = makeComm(world, "non-blocking", everybody(world), &config);
  awaitReady(comm);
  reduceRepeatedly(comm, world.rank, everybody(world), "non-blocking");
  ncclComm_t child = nullptr;
  const ncclResult_t made = ncclCommSplit(comm, 0, world.rank, &child, nullptr);
  if (made != ncclInProgress) check(made, "ncclCommSplit");
  awaitReady(comm);
  EXPECT(child != nullptr);
  awaitReady(child);
  reduceRepeatedly(child, world.rank, everybody(world), "child");
  for (const ncclComm_t it : {child, comm}) {
    const ncclResult_t finalized = ncclCommFinalize(it);
    if (finalized != ncclInProgress) check(finalized, "ncclCommFinalize");
    awaitReady(it);
    CHECK(ncclCommDestroy(it));
  }
}

void nonBlockingGroups(const World& world) {
  ncclConfig_t config = nonBlocking();
  const ncclComm_t comm = makeComm(world, "non-blocking", everybody(world), &config);
  awaitReady(comm);
  const cudaStream_t stream = makeStream();
  Floats a(kCount), b(30011);
  for (int call = 0; call < kCalls; ++call) {
    a.fill(world.rank, call, stream);
    b.fill(world.rank, call, stream);
    CHECK(ncclGroupStart());
    for (Floats* it : {&a, &b}) {
      const ncclResult_t result =
          ncclAllReduce(it->data(), it->data(), it->count(), ncclFloat32, ncclSum, comm, stream);
      if (result != ncclInProgress) check(result, "ncclAllReduce");
    }
    const ncclResult_t ended = ncclGroupEnd();
    if (ended != ncclInProgress) check(ended, "ncclGroupEnd");
    awaitReady(comm);
    await(comm, stream);
    expectStep(call, a.read(stream), sumOf(everybody(world), call), "a");
    expectStep(call, b.read(stream), sumOf(everybody(world), call), "b");
  }
  CHECK(ncclCommDestroy(comm));
}

// A watchdog aborts while the others of the job are gone: every wait must end.
void abortFromAnotherThread(const World& world) {
  const ncclComm_t comm = makeWorldComm(world);
  reduceRepeatedly(comm, world.rank, everybody(world), "before");
  if (world.rank == 1) {
    CHECK(ncclCommAbort(comm));
    return;
  }
  const cudaStream_t stream = makeStream();
  Floats buffer(kCount);
  std::atomic<bool> over{false};
  std::thread watchdog([&] {
    for (int waited = 0; waited < 100 && !over.load(); ++waited)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(ncclCommAbort(comm));
  });
  // Whatever it returns it must return, also where the other side will never answer.
  ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclFloat32, ncclSum, comm, stream);
  while (cudaStreamQuery(stream) == cudaErrorNotReady)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  over.store(true);
  watchdog.join();
  const ncclComm_t next = makeComm(world, "next", {0});
  reduceRepeatedly(next, 0, {0}, "next", kCalls);
  CHECK(ncclCommDestroy(next));
}

// An abort while a rank waits for another one that will never come, in NCCL.
void abortWhileGettingReady(const World& world) {
  const ncclComm_t comm = makeWorldComm(world);
  const cudaStream_t stream = makeStream();
  Floats buffer(kCount);
  const int mine = world.rank == 1 ? 2 : 3;  // rank 1 stops before NCCL is to connect them
  std::thread watchdog;
  for (int call = 0; call < mine; ++call) {
    if (call == 2)
      watchdog = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        CHECK(ncclCommAbort(comm));
      });
    ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclFloat32, ncclSum, comm, stream);
    if (call < 2) await(comm, stream);
  }
  if (watchdog.joinable())
    watchdog.join();
  else {
    // Stays until rank 0 has given up, so that it is the abort which ends the wait.
    shareId(world, "over", false);
    CHECK(ncclCommAbort(comm));
    return;
  }
  shareId(world, "over", true);
}

void revoke(const World& world) {
  const ncclComm_t comm = makeWorldComm(world);
  reduceRepeatedly(comm, world.rank, everybody(world), "before");
  CHECK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  const cudaStream_t stream = makeStream();
  Floats buffer(kCount);
  EXPECT_RESULT(
      ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclFloat32, ncclSum, comm, stream),
      ncclInvalidUsage);
  CHECK(ncclCommAbort(comm));
}

void oneRank(const World& world) {
  const ncclComm_t comm = makeComm(world, "alone", {0});
  reduceRepeatedly(comm, 0, {0}, "alone", kCalls);
  CHECK(ncclCommDestroy(comm));
}

// The device that was current stays current, whatever Cinch did in between.
void currentDeviceIsKept(const World& world) {
  int before = -1, after = -1;
  const ncclComm_t comm = makeWorldComm(world);
  CHECK(cudaGetDevice(&before));
  reduceRepeatedly(comm, world.rank, everybody(world), "device");
  CHECK(cudaGetDevice(&after));
  EXPECT(before == after);
  CHECK(ncclCommDestroy(comm));
}

// A rank's process ends; the others go on when the kernel has closed all that it had.
void leavePid(const World& world) {
  std::ofstream(world.folder + "/pid.new") << getpid() << std::endl;
  std::filesystem::rename(world.folder + "/pid.new", world.folder + "/pid");
}

void awaitEndOfPid(const World& world) {
  pid_t pid = 0;
  while (!(std::ifstream(world.folder + "/pid") >> pid))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (std::string text = "R"; text == "R" || text == "S" || text == "D";) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    if (!(stat >> text >> text >> text)) return;
  }
}

constexpr int kLong = 60;  // calls, which is more than what any decision of Cinch's takes

// Some of them are compressed, if that is faster.
void reduceSomehow(ncclComm_t comm, int rank, const std::vector<int>& members,
                   const std::string& label, int nCalls = kCalls) {
  const cudaStream_t stream = makeStream();
  Buffers buffers;
  auto& [in, out] = buffers;
  for (int call = 0; call < nCalls; ++call) {
    in.fill(rank, call, stream);
    CHECK(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat32, ncclSum, comm, stream));
    await(comm, stream);
    const auto values = out.read(stream);
    expectNear(values, sumOf(members, call), label + std::to_string(call));
    expectSameEverywhere(values, label + std::to_string(call));
  }
  CHECK(cudaStreamDestroy(stream));
}

// The process of the world's rank 0, which made its id, is no rank of the communicator that was
// made from it, and ends.
void makerOfTheParentLeaves(const World& world) {
  const ncclComm_t comm = makeWorldComm(world);
  reduceSomehow(comm, world.rank, everybody(world), "world");
  ncclComm_t rest = nullptr;
  CHECK(ncclCommSplit(comm, world.rank == 0 ? NCCL_SPLIT_NOCOLOR : 7, 0, &rest, nullptr));
  if (world.rank == 0) return leavePid(world);
  reduceSomehow(rest, world.rank, {1, 2}, "rest");
  awaitEndOfPid(world);
  reduceSomehow(rest, world.rank, {1, 2}, "long", kLong);
  ncclComm_t again = nullptr;
  CHECK(ncclCommSplit(rest, 0, -world.rank, &again, nullptr));
  reduceSomehow(again, world.rank, {2, 1}, "again");
  CHECK(ncclCommDestroy(again));
  CHECK(ncclCommDestroy(rest));
}

// Where each makes the same id, too.
void splitsSomehow(const World& world) {
  const ncclComm_t comm = makeWorldComm(world);
  reduceSomehow(comm, world.rank, everybody(world), "world");
  ncclComm_t half = nullptr, again = nullptr;
  CHECK(ncclCommSplit(comm, world.rank % 2, world.rank, &half, nullptr));
  std::vector<int> members;
  for (int rank = world.rank % 2; rank < world.ranks; rank += 2) members.push_back(rank);
  reduceSomehow(half, world.rank, members, "half" + std::to_string(world.rank % 2));
  CHECK(ncclCommSplit(comm, 0, -world.rank, &again, nullptr));
  std::vector<int> backwards = everybody(world);
  std::ranges::reverse(backwards);
  reduceSomehow(again, world.rank, backwards, "again");
  for (const ncclComm_t each : {again, half, comm}) CHECK(ncclCommDestroy(each));
}

// The process that makes the id is no rank at all, and ends when all ranks have what they need of
// it.
void makerIsNoRank(const World& world) {
  const ncclUniqueId id = shareId(world, "made-elsewhere", world.rank == 2);
  if (world.rank == 2) {
    while (!std::filesystem::exists(world.folder + "/made"))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return leavePid(world);
  }
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 2, id, world.rank));
  reduceSomehow(comm, world.rank, {0, 1}, "early");
  if (world.rank == 0) std::ofstream(world.folder + "/made");
  awaitEndOfPid(world);
  reduceSomehow(comm, world.rank, {0, 1}, "long", kLong);
  CHECK(ncclCommDestroy(comm));
}

}  // namespace

const std::vector<Case>& communicatorCases() {
  static const std::vector<Case> cases = {
      {"communicator-split", 4, split},
      {"communicator-split-without-colour", 3, splitWithoutColour},
      {"communicator-split-of-a-split", 3, splitOfASplit},
      {"communicator-splits-somehow", 4, splitsSomehow},
      {"communicator-splits-in-a-group", 2, splitsInAGroup},
      {"communicator-shrink", 3, shrink},
      {"communicator-scalable", 3, scalable},
      {"communicator-init-all", 1, initAll},
      {"communicator-many-generations", 2, manyGenerations},
      {"communicator-ranks-as-threads", 2, ranksAsThreads},
      {"communicator-ranks-of-one-thread", 2, ranksOfOneThread},
      {"communicator-threads", 2, threadsWithCommunicators},
      {"communicator-sum-beside-a-receive", 2, sumBesideAReceive},
      {"communicator-non-blocking", 2, nonBlockingLife},
      {"communicator-non-blocking-groups", 2, nonBlockingGroups},
      {"communicator-abort-from-another-thread", 2, abortFromAnotherThread},
      {"communicator-abort-while-getting-ready", 2, abortWhileGettingReady},
      {"communicator-revoke", 2, revoke},
      {"communicator-one-rank", 1, oneRank},
      {"communicator-current-device", 2, currentDeviceIsKept},
      {"communicator-maker-of-the-parent-leaves", 3, makerOfTheParentLeaves},
      {"communicator-maker-is-no-rank", 3, makerIsNoRank},
  };
  return cases;
}

}  // namespace surface
