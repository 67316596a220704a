// Groups: what stands between ncclGroupStart and ncclGroupEnd.
#include <algorithm>
#include <memory>

#include "tests/multiproc/surface/program.h"

namespace surface {
namespace {

constexpr int kCalls = 6;
constexpr size_t kCount = 40003;

// One communicator over the world, one stream, in and out buffers.
struct Bench {
  explicit Bench(const World& world, const std::string& name = "world", size_t count = kCount)
      : world(world),
        comm(makeWorldComm(world, name)),
        stream(makeStream()),
        in(count),
        out(count) {}
  ~Bench() {
    ncclCommDestroy(comm);
    cudaStreamDestroy(stream);
  }
  void allReduce() {
    CHECK(ncclAllReduce(in.data(), out.data(), in.count(), ncclFloat32, ncclSum, comm, stream));
  }
  void expect(int call, const std::string& label) {
    await(comm, stream);
    const auto values = out.read(stream);
    expectStep(call, values, sumOf(everybody(world), call), label);
    expectSameEverywhere(values, label + std::to_string(call));
  }

  const World& world;
  ncclComm_t comm;
  cudaStream_t stream;
  Floats in, out;
};

void nested(const World& world) {
  Bench bench(world);
  for (int call = 0; call < kCalls; ++call) {
    bench.in.fill(world.rank, call, bench.stream);
    CHECK(ncclGroupStart());
    CHECK(ncclGroupStart());
    bench.allReduce();
    CHECK(ncclGroupEnd());
    CHECK(ncclGroupStart());
    CHECK(ncclGroupEnd());
    CHECK(ncclGroupEnd());
    bench.expect(call, "nested");
  }
}

// Megatron's and PyTorch's coalesced buckets: several of one size and some of others.
void coalesced(const World& world) {
  const size_t counts[] = {20011, 50000, 20011, 30001, 20011, 50000};
  std::vector<std::unique_ptr<Floats>> in, out;
  for (const size_t count : counts) {
    in.push_back(std::make_unique<Floats>(count));
    out.push_back(std::make_unique<Floats>(count));
  }
  const ncclComm_t comm = makeWorldComm(world);
  const cudaStream_t stream = makeStream();
  // Equal buckets are one signature, whose calls are counted one by one: also where the workspace
  // has room for several.
  for (int step = 0; step < kCalls; ++step) {
    for (size_t i = 0; i < in.size(); ++i)
      in[i]->fill(world.rank, 10 * step + static_cast<int>(i), stream);
    CHECK(ncclGroupStart());
    for (size_t i = 0; i < in.size(); ++i)
      CHECK(ncclAllReduce(in[i]->data(), out[i]->data(), counts[i], ncclFloat32, ncclSum, comm,
                          stream));
    CHECK(ncclGroupEnd());
    await(comm, stream);
    for (size_t i = 0; i < in.size(); ++i) {
      const auto values = out[i]->read(stream);
      const Exact exact = sumOf(everybody(world), 10 * step + static_cast<int>(i));
      const std::string label = "bucket" + std::to_string(i) + "-" + std::to_string(step);
      if (step == 0) expectExact(values, exact, label);
      if (step > kWarmup) expectCompressed(values, exact, label);
      expectSameEverywhere(values, label);
    }
  }
  CHECK(ncclCommDestroy(comm));
}

// Passed kinds beside compressed ones, on one communicator.
void mixedKinds(const World& world) {
  Bench bench(world);
  const auto ranks = static_cast<size_t>(world.ranks);
  Floats scattered(5000), whole(5000 * ranks), broadcast(1000), maximum(1000);
  for (int call = 0; call < kCalls; ++call) {
    bench.in.fill(world.rank, call, bench.stream);
    whole.fill(world.rank, call, bench.stream);
    broadcast.fill(world.rank, call, bench.stream);
    maximum.fill(world.rank, call, bench.stream);
    CHECK(ncclGroupStart());
    CHECK(ncclBroadcast(broadcast.data(), broadcast.data(), 1000, ncclFloat32, 1, bench.comm,
                        bench.stream));
    bench.allReduce();
    CHECK(ncclAllReduce(maximum.data(), maximum.data(), 1000, ncclFloat32, ncclMax, bench.comm,
                        bench.stream));
    CHECK(ncclReduceScatter(whole.data(), scattered.data(), 5000, ncclFloat32, ncclSum, bench.comm,
                            bench.stream));
    CHECK(ncclGroupEnd());
    bench.expect(call, "mixed");
    expectExact(
        broadcast.read(bench.stream), [&](size_t i) { return valueOf(1, call, i); }, "broadcast");
    const size_t first = 5000 * static_cast<size_t>(world.rank);
    expectStep(call, scattered.read(bench.stream), sumOf(everybody(world), call, first), "scatter");
    expectExact(
        maximum.read(bench.stream),
        [&](size_t i) {
          float largest = valueOf(0, call, i);
          for (int rank = 1; rank < world.ranks; ++rank)
            largest = std::max(largest, valueOf(rank, call, i));
          return largest;
        },
        "maximum");
  }
}

void twoCommunicatorsAndStreams(const World& world) {
  Bench a(world, "a"), b(world, "b", 70001);
  for (int call = 0; call < kCalls; ++call) {
    a.in.fill(world.rank, call, a.stream);
    b.in.fill(world.rank, call, b.stream);
    CHECK(ncclGroupStart());
    a.allReduce();
    b.allReduce();
    CHECK(ncclGroupEnd());
    a.expect(call, "a");
    b.expect(call, "b");
  }
}

// Several streams of one communicator in one group.
void twoStreams(const World& world) {
  Bench bench(world);
  const cudaStream_t second = makeStream();
  Floats in(30011), out(30011);
  for (int call = 0; call < kCalls; ++call) {
    bench.in.fill(world.rank, call, bench.stream);
    in.fill(world.rank, call, second);
    CHECK(ncclGroupStart());
    bench.allReduce();
    CHECK(
        ncclAllReduce(in.data(), out.data(), in.count(), ncclFloat32, ncclSum, bench.comm, second));
    CHECK(ncclGroupEnd());
    await(bench.comm, second);
    bench.expect(call, "first");
    expectStep(call, out.read(second), sumOf(everybody(world), call), "second");
  }
}

struct Pair {
  Pair(const World& world, const std::string& name, std::vector<int> members)
      : members(std::move(members)),
        comm(makeComm(world, name, this->members)),
        in(kCount),
        out(kCount) {}
  void allReduce(cudaStream_t stream) {
    CHECK(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat32, ncclSum, comm, stream));
  }
  void expect(int call, cudaStream_t stream, const std::string& label) {
    await(comm, stream);
    const auto values = out.read(stream);
    expectStep(call, values, sumOf(members, call), label);
    expectSameEverywhere(values, label + std::to_string(call));
  }
  std::vector<int> members;
  ncclComm_t comm;
  Floats in, out;
};

// Rank 0 groups two communicators; their other members know of one each.
void overlappingMemberships(const World& world) {
  const cudaStream_t stream = makeStream(), other = makeStream();
  std::unique_ptr<Pair> a, c;
  if (world.rank != 2) a = std::make_unique<Pair>(world, "a", std::vector<int>{0, 1});
  if (world.rank != 1) c = std::make_unique<Pair>(world, "c", std::vector<int>{0, 2});
  for (int call = 0; call < kCalls; ++call) {
    if (a) a->in.fill(world.rank, call, stream);
    if (c) c->in.fill(world.rank, call, other);
    const bool both = a && c;
    if (both) CHECK(ncclGroupStart());
    if (c && call % 2 == 0) c->allReduce(other);
    if (a) a->allReduce(stream);
    if (c && call % 2 == 1) c->allReduce(other);
    if (both) CHECK(ncclGroupEnd());
    if (a) a->expect(call, stream, "a");
    if (c) c->expect(call, other, "c");
  }
}

// Every rank groups two communicators, in an order that goes round in a circle.
void cycleOfMemberships(const World& world) {
  const cudaStream_t stream = makeStream(), other = makeStream();
  const int next = (world.rank + 1) % 3, before = (world.rank + 2) % 3;
  const auto pairOf = [&](int low) {
    return std::make_unique<Pair>(world, "pair" + std::to_string(low),
                                  std::vector<int>{low, (low + 1) % 3});
  };
  // Made in one order on all ranks, used in another one on each.
  std::unique_ptr<Pair> mine, theirs;
  for (int low = 0; low < 3; ++low) {
    if (low == world.rank) mine = pairOf(low);
    if (low == before) theirs = pairOf(low);
  }
  EXPECT(mine->members[1] == next);
  for (int call = 0; call < kCalls; ++call) {
    mine->in.fill(world.rank, call, stream);
    theirs->in.fill(world.rank, call, other);
    CHECK(ncclGroupStart());
    mine->allReduce(stream);
    theirs->allReduce(other);
    CHECK(ncclGroupEnd());
    mine->expect(call, stream, "pair" + std::to_string(world.rank) + "-");
    theirs->expect(call, other, "pair" + std::to_string(before) + "-");
  }
}

// [Send, AllReduce] on one rank, [AllReduce, Recv] on the other.
void pointToPointBesides(const World& world) {
  Bench bench(world);
  Floats message(777);
  for (int call = 0; call < kCalls; ++call) {
    bench.in.fill(world.rank, call, bench.stream);
    message.fill(world.rank, 100 + call, bench.stream);
    CHECK(ncclGroupStart());
    if (world.rank == 0)
      CHECK(ncclSend(message.data(), 777, ncclFloat32, 1, bench.comm, bench.stream));
    bench.allReduce();
    if (world.rank == 1)
      CHECK(ncclRecv(message.data(), 777, ncclFloat32, 0, bench.comm, bench.stream));
    CHECK(ncclGroupEnd());
    bench.expect(call, "allreduce");
    const int sender = world.rank == 1 ? 0 : world.rank;
    expectExact(
        message.read(bench.stream), [&](size_t i) { return valueOf(sender, 100 + call, i); },
        "message");
  }
}

// Everybody passes a message round the ring while reducing.
void ringBesides(const World& world) {
  Bench bench(world);
  Floats right(5000), left(5000);
  const int next = (world.rank + 1) % world.ranks;
  const int before = (world.rank + world.ranks - 1) % world.ranks;
  for (int call = 0; call < kCalls; ++call) {
    bench.in.fill(world.rank, call, bench.stream);
    right.fill(world.rank, 100 + call, bench.stream);
    CHECK(ncclGroupStart());
    CHECK(ncclSend(right.data(), 5000, ncclFloat32, next, bench.comm, bench.stream));
    bench.allReduce();
    CHECK(ncclRecv(left.data(), 5000, ncclFloat32, before, bench.comm, bench.stream));
    CHECK(ncclGroupEnd());
    bench.expect(call, "allreduce");
    expectExact(
        left.read(bench.stream), [&](size_t i) { return valueOf(before, 100 + call, i); },
        "message");
  }
}

// A lazy init in the middle: PyTorch closes what is open, makes the communicator and reopens.
void closedAndReopened(const World& world) {
  Bench bench(world);
  for (int call = 0; call < kCalls; ++call) {
    bench.in.fill(world.rank, call, bench.stream);
    CHECK(ncclGroupStart());
    CHECK(ncclGroupStart());
    bench.allReduce();
    CHECK(ncclGroupEnd());
    CHECK(ncclGroupEnd());
    const ncclComm_t lazy = makeWorldComm(world, "lazy" + std::to_string(call));
    CHECK(ncclGroupStart());
    CHECK(ncclGroupStart());
    CHECK(ncclGroupEnd());
    CHECK(ncclGroupEnd());
    bench.expect(call, "reopened");
    CHECK(ncclCommDestroy(lazy));
  }
}

// One rank asks for an estimate between the real calls.
void simulatedOnOneRank(const World& world) {
  Bench bench(world);
  for (int call = 0; call < kCalls; ++call) {
    bench.in.fill(world.rank, call, bench.stream);
    if (world.rank == 0) {
      ncclSimInfo_t info{sizeof info, NCCL_SIM_INFO_MAGIC, NCCL_VERSION_CODE, 0};
      CHECK(ncclGroupStart());
      bench.allReduce();
      CHECK(ncclGroupSimulateEnd(&info));
    }
    bench.allReduce();
    bench.expect(call, "simulated");
  }
}

// A rank that has met a call once more than the others still calls its slots as they do.
void simulatedOutOfOrder(const World& world) {
  Bench bench(world);
  Floats otherIn(kCount / 2), otherOut(kCount / 2);
  const auto other = [&] {
    CHECK(ncclAllReduce(otherIn.data(), otherOut.data(), otherIn.count(), ncclFloat32, ncclSum,
                        bench.comm, bench.stream));
  };
  for (int call = 0; call < kCalls; ++call) {
    bench.in.fill(world.rank, call, bench.stream);
    otherIn.fill(world.rank, call, bench.stream);
    bench.allReduce();
    other();
    bench.expect(call, "first");
    const auto values = otherOut.read(bench.stream);
    expectStep(call, values, sumOf(everybody(world), call), "second");
    expectSameEverywhere(values, "second" + std::to_string(call));
    if (call != 0 || world.rank != 0) continue;
    ncclSimInfo_t info{sizeof info, NCCL_SIM_INFO_MAGIC, NCCL_VERSION_CODE, 0};
    CHECK(ncclGroupStart());
    other();
    CHECK(ncclGroupSimulateEnd(&info));
  }
}

// A group that holds a call which NCCL refuses launches nothing, and the next one works.
void refusedCall(const World& world) {
  Bench bench(world);
  for (int call = 0; call < kCalls; ++call) {
    bench.in.fill(world.rank, call, bench.stream);
    CHECK(ncclGroupStart());
    bench.allReduce();
    EXPECT_RESULT(ncclBroadcast(bench.in.data(), bench.out.data(), 10, ncclFloat32, world.ranks,
                                bench.comm, bench.stream),
                  ncclInvalidArgument);
    EXPECT_RESULT(ncclGroupEnd(), ncclInvalidArgument);
    bench.allReduce();
    bench.expect(call, "after");
  }
}

void emptyGroups(const World& world) {
  Bench bench(world);
  for (int call = 0; call < kCalls; ++call) {
    bench.in.fill(world.rank, call, bench.stream);
    CHECK(ncclGroupStart());
    CHECK(ncclGroupEnd());
    CHECK(ncclGroupStart());
    CHECK(ncclAllReduce(bench.in.data(), bench.out.data(), 0, ncclFloat32, ncclSum, bench.comm,
                        bench.stream));
    bench.allReduce();
    CHECK(ncclGroupEnd());
    bench.expect(call, "empty");
  }
}

}  // namespace

const std::vector<Case>& groupCases() {
  static const std::vector<Case> cases = {
      {"group-nested", 2, nested},
      {"group-coalesced", 3, coalesced},
      {"group-mixed-kinds", 3, mixedKinds},
      {"group-two-communicators-and-streams", 2, twoCommunicatorsAndStreams},
      {"group-two-streams", 2, twoStreams},
      {"group-overlapping-memberships", 3, overlappingMemberships},
      {"group-cycle-of-memberships", 3, cycleOfMemberships},
      {"group-point-to-point-besides", 2, pointToPointBesides},
      {"group-ring-besides", 3, ringBesides},
      {"group-closed-and-reopened", 2, closedAndReopened},
      {"group-simulated-on-one-rank", 2, simulatedOnOneRank},
      {"group-simulated-out-of-order", 2, simulatedOutOfOrder},
      {"group-refused-call", 2, refusedCall},
      {"group-empty", 2, emptyGroups},
  };
  return cases;
}

}  // namespace surface
