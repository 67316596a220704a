// Calls in CUDA graphs.
#include <memory>

#include "tests/multiproc/surface/program.h"

namespace surface {
namespace {

constexpr size_t kCount = 40003;

struct Bench {
  explicit Bench(const World& world, size_t count = kCount)
      : world(world), comm(makeWorldComm(world)), stream(makeStream()), in(count), out(count) {}
  ~Bench() { ncclCommDestroy(comm); }

  void allReduce() {
    CHECK(ncclAllReduce(in.data(), out.data(), in.count(), ncclFloat32, ncclSum, comm, stream));
  }
  // Eager calls until they are compressed.
  void warmUp() {
    for (int call = 0; call <= kWarmup; ++call) {
      in.fill(world.rank, call, stream);
      allReduce();
      await(comm, stream);
      expectStep(call, out.read(stream), sumOf(everybody(world), call), "eager");
    }
  }
  template <class Body>
  cudaGraphExec_t capture(Body body) {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    body();
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec = nullptr;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
  }
  std::vector<float> replay(cudaGraphExec_t exec, int step) {
    in.fill(world.rank, step, stream);
    CHECK(cudaGraphLaunch(exec, stream));
    await(comm, stream);
    return out.read(stream);
  }

  const World& world;
  ncclComm_t comm;
  cudaStream_t stream;
  Floats in, out;
};

void replayedWithNewInputs(const World& world) {
  Bench bench(world);
  bench.warmUp();
  const cudaGraphExec_t exec = bench.capture([&] { bench.allReduce(); });
  for (int step = 10; step < 20; ++step) {
    const auto values = bench.replay(exec, step);
    expectCompressed(values, sumOf(everybody(world), step), "replay");
    expectSameEverywhere(values, "replay" + std::to_string(step));
  }
  CHECK(cudaGraphExecDestroy(exec));
}

// With full feedback the mean over replays of one input comes ever nearer to the exact sum, which
// it would not if every replay began anew.
void feedbackAdvances(const World& world) {
  Bench bench(world);
  bench.warmUp();
  const cudaGraphExec_t exec = bench.capture([&] { bench.allReduce(); });
  constexpr int kReplays = 32;
  std::vector<double> mean(kCount, 0.0);
  double single = 0, averaged = 0;
  const Exact exact = sumOf(everybody(world), 10);
  for (int replay = 0; replay < kReplays; ++replay) {
    const auto values = bench.replay(exec, 10);
    for (size_t i = 0; i < kCount; ++i) {
      mean[i] += values[i] / kReplays;
      if (replay == 0) single += (values[i] - exact(i)) * (values[i] - exact(i));
    }
  }
  for (size_t i = 0; i < kCount; ++i) averaged += (mean[i] - exact(i)) * (mean[i] - exact(i));
  EXPECT(single > 0);
  EXPECT(averaged < single / 50);
  CHECK(cudaGraphExecDestroy(exec));
}

// Two equal buckets in one graph must not share a residual.
void equalBucketsKeepApart(const World& world) {
  Bench bench(world);
  bench.warmUp();
  Floats second(kCount), result(kCount);
  const cudaGraphExec_t exec = bench.capture([&] {
    bench.allReduce();
    CHECK(ncclAllReduce(second.data(), result.data(), kCount, ncclFloat32, ncclSum, bench.comm,
                        bench.stream));
  });
  constexpr int kReplays = 24;
  std::vector<double> mean(kCount, 0.0);
  const Exact exact = sumOf(everybody(world), 300);
  double single = 0, averaged = 0;
  for (int replay = 0; replay < kReplays; ++replay) {
    second.fill(world.rank, 300, bench.stream);
    const auto first = bench.replay(exec, 10 + replay);
    expectCompressed(first, sumOf(everybody(world), 10 + replay), "first bucket");
    const auto values = result.read(bench.stream);
    expectCompressed(values, exact, "second bucket");
    for (size_t i = 0; i < kCount; ++i) {
      mean[i] += values[i] / kReplays;
      if (replay == 0) single += (values[i] - exact(i)) * (values[i] - exact(i));
    }
  }
  for (size_t i = 0; i < kCount; ++i) averaged += (mean[i] - exact(i)) * (mean[i] - exact(i));
  EXPECT(averaged < single / 30);
  CHECK(cudaGraphExecDestroy(exec));
}

void graphsAndStreamsMixed(const World& world) {
  Bench bench(world);
  bench.warmUp();
  const cudaGraphExec_t exec = bench.capture([&] { bench.allReduce(); });
  const cudaStream_t other = makeStream();
  Floats in(kCount), out(kCount);
  for (int step = 10; step < 30; ++step) {
    bench.in.fill(world.rank, step, bench.stream);
    in.fill(world.rank, 100 + step, other);
    // Nothing but Cinch and NCCL orders the two streams.
    CHECK(cudaGraphLaunch(exec, bench.stream));
    CHECK(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat32, ncclSum, bench.comm, other));
    CHECK(cudaGraphLaunch(exec, bench.stream));
    await(bench.comm, other);
    await(bench.comm, bench.stream);
    expectCompressed(bench.out.read(bench.stream), sumOf(everybody(world), step), "graph");
    expectCompressed(out.read(other), sumOf(everybody(world), 100 + step), "stream");
    expectSameEverywhere(out.read(other), "stream" + std::to_string(step));
  }
  CHECK(cudaGraphExecDestroy(exec));
}

void capturedFromTheStart(const World& world) {
  Bench bench(world);
  const cudaGraphExec_t exec = bench.capture([&] { bench.allReduce(); });
  for (int step = 10; step < 18; ++step)
    expectExact(bench.replay(exec, step), sumOf(everybody(world), step), "never activates");
  // Eager calls of the same kind are compressed all the same; later captures stay as the first was.
  bench.warmUp();
  const cudaGraphExec_t again = bench.capture([&] { bench.allReduce(); });
  expectExact(bench.replay(again, 40), sumOf(everybody(world), 40), "as before");
}

// Some ranks make their graph anew while others go on with theirs.
void capturedAnewOnOneRank(const World& world) {
  Bench bench(world);
  bench.warmUp();
  cudaGraphExec_t exec = bench.capture([&] { bench.allReduce(); });
  for (int step = 10; step < 20; ++step) {
    if (world.rank == 0 && step % 3 == 0) {
      CHECK(cudaGraphExecDestroy(exec));
      exec = bench.capture([&] { bench.allReduce(); });
    }
    const auto values = bench.replay(exec, step);
    expectCompressed(values, sumOf(everybody(world), step), "replay");
    expectSameEverywhere(values, "replay" + std::to_string(step));
  }
}

void groupInAGraph(const World& world) {
  Bench bench(world);
  Floats shards(20011 * static_cast<size_t>(world.ranks)), shard(20011);
  const auto both = [&] {
    CHECK(ncclGroupStart());
    bench.allReduce();
    CHECK(ncclReduceScatter(shards.data(), shard.data(), 20011, ncclFloat32, ncclSum, bench.comm,
                            bench.stream));
    CHECK(ncclGroupEnd());
  };
  for (int call = 0; call <= kWarmup; ++call) {
    both();
    await(bench.comm, bench.stream);
  }
  const cudaGraphExec_t exec = bench.capture(both);
  const size_t first = 20011 * static_cast<size_t>(world.rank);
  for (int step = 10; step < 16; ++step) {
    shards.fill(world.rank, 100 + step, bench.stream);
    expectCompressed(bench.replay(exec, step), sumOf(everybody(world), step), "allreduce");
    expectCompressed(shard.read(bench.stream), sumOf(everybody(world), 100 + step, first),
                     "scatter");
  }
}

// The capture forks to a second stream and joins it again.
void forkedCapture(const World& world) {
  Bench bench(world);
  bench.warmUp();
  const cudaStream_t other = makeStream();
  cudaEvent_t fork = nullptr, join = nullptr;
  CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  Floats in(kCount), out(kCount);
  const cudaGraphExec_t exec = bench.capture([&] {
    CHECK(cudaEventRecord(fork, bench.stream));
    CHECK(cudaStreamWaitEvent(other, fork, 0));
    bench.allReduce();
    CHECK(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat32, ncclSum, bench.comm, other));
    CHECK(cudaEventRecord(join, other));
    CHECK(cudaStreamWaitEvent(bench.stream, join, 0));
  });
  for (int step = 10; step < 20; ++step) {
    in.fill(world.rank, 100 + step, bench.stream);
    expectCompressed(bench.replay(exec, step), sumOf(everybody(world), step), "first");
    expectCompressed(out.read(bench.stream), sumOf(everybody(world), 100 + step), "second");
  }
}

// The graph outlives the growth of what the eager calls work in.
void workspaceOutlivesTheGraph(const World& world) {
  Bench bench(world);
  bench.warmUp();
  const cudaGraphExec_t exec = bench.capture([&] { bench.allReduce(); });
  Floats large(10 * kCount);
  for (int step = 10; step < 22; ++step) {
    large.fill(world.rank, 100 + step, bench.stream);
    CHECK(ncclAllReduce(large.data(), large.data(), large.count(), ncclFloat32, ncclSum, bench.comm,
                        bench.stream));
    expectCompressed(bench.replay(exec, step), sumOf(everybody(world), step), "graph");
    expectStep(step - 10, large.read(bench.stream), sumOf(everybody(world), 100 + step), "large");
  }
}

}  // namespace

const std::vector<Case>& graphCases() {
  static const std::vector<Case> cases = {
      {"graph-replayed-with-new-inputs", 3, replayedWithNewInputs},
      {"graph-feedback-advances", 2, feedbackAdvances},
      {"graph-equal-buckets-keep-apart", 2, equalBucketsKeepApart},
      {"graph-and-streams-mixed", 2, graphsAndStreamsMixed},
      {"graph-captured-from-the-start", 2, capturedFromTheStart},
      {"graph-captured-anew-on-one-rank", 2, capturedAnewOnOneRank},
      {"graph-of-a-group", 2, groupInAGraph},
      {"graph-with-a-fork", 2, forkedCapture},
      {"graph-outlives-growth", 2, workspaceOutlivesTheGraph},
  };
  return cases;
}

}  // namespace surface
