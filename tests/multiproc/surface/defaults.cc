// What a program gets whose user has set nothing. defaults_test.py reads in Cinch's report what
// became of these calls; here their results are checked.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "tests/multiproc/surface/program.h"

namespace surface {
namespace {

// Of this thread, where tests/control/allocations.cc is preloaded; else null.
using CountAllocations = uint64_t (*)();
CountAllocations allocationCounter() {
  return reinterpret_cast<CountAllocations>(dlsym(RTLD_DEFAULT, "allocationsByCinch"));
}

// The buckets of a model, in the order in which a backward pass fills them: two of one size, so
// that only their place in the step tells them apart.
constexpr size_t kBuckets[] = {30000, 80000, 80000};
constexpr size_t kParameters = 30000 + 80000 + 80000;
constexpr size_t kLayer = 10000;  // values of one scale
constexpr int kTrainingSteps = 45;
// Two quantisations at three bits, one of which has half the signal.
constexpr double kWorstError = 0.12;
constexpr double kRounding = 1e-12;

double scaleOf(size_t index) {
  return std::pow(4.0, -static_cast<double>(index / kLayer % 4));
}

// Gradients whose layers differ in scale.
class Bucket {
 public:
  explicit Bucket(size_t count, int number) : memory_(count), number_(number) {}

  void fill(const World& world, int step, cudaStream_t stream) {
    std::vector<float> values(memory_.count());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(valueOf(world.rank, seedOf(step), i) * scaleOf(i));
    CHECK(cudaMemcpyAsync(memory_.data(), values.data(), values.size() * sizeof(float),
                          cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
  }

  // The values of that step as they are filled in, to be taken later without waiting.
  std::unique_ptr<Floats> staged(const World& world, int step, cudaStream_t stream) {
    fill(world, step, stream);
    auto copy = std::make_unique<Floats>(memory_.count());
    copyAsync(copy->data(), memory_.data(), stream);
    return copy;
  }
  void take(const Floats& staged, cudaStream_t stream) {
    copyAsync(memory_.data(), staged.data(), stream);
  }

  void allReduce(ncclComm_t comm, cudaStream_t stream) { CHECK(tryAllReduce(comm, stream)); }
  ncclResult_t tryAllReduce(ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(memory_.data(), memory_.data(), memory_.count(), ncclFloat32, ncclSum,
                         comm, stream);
  }

  void check(const World& world, int step, double worstError, cudaStream_t stream) const {
    const std::string label = "step" + std::to_string(step) + "-bucket" + std::to_string(number_);
    const std::vector<float> values = memory_.read(stream);
    const Exact unscaled = sumOf(everybody(world), seedOf(step));
    double error = 0, power = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double exact = unscaled(i) * scaleOf(i);
      error += std::pow(values[i] - exact, 2);
      power += exact * exact;
    }
    if (!(error <= worstError * power)) fail(label + ": NMSE " + std::to_string(error / power));
    expectSameEverywhere(values, label);
  }

 private:
  int seedOf(int step) const { return 10 * step + number_; }
  void copyAsync(float* to, const float* from, cudaStream_t stream) const {
    CHECK(cudaMemcpyAsync(to, from, memory_.count() * sizeof(float), cudaMemcpyDeviceToDevice,
                          stream));
  }

  Floats memory_;
  int number_;
};

// As PyTorch DDP: the parameters are broadcast, then every step reduces the buckets; the job itself
// averages its loss.
class Job {
 public:
  explicit Job(const World& world)
      : world_(world), comm_(makeWorldComm(world)), stream_(makeStream()), loss_(1) {
    const Floats parameters(kParameters);
    CHECK(ncclBroadcast(parameters.data(), parameters.data(), kParameters, ncclFloat32, 0, comm_,
                        stream_));
    await(comm_, stream_);
    for (const size_t count : kBuckets)
      buckets_.push_back(std::make_unique<Bucket>(count, static_cast<int>(buckets_.size())));
  }
  ~Job() {
    if (comm_ != nullptr) ncclCommDestroy(comm_);
  }
  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }

  void train(int steps) {
    for (int step = 0; step < steps; ++step) trainStep(step);
  }
  void trainStep(int step) {
    fill(step);
    reduce();
    check(step, kWorstError);
    averageLoss(step);
  }
  // One rank enqueues steps, and only then tells the others, over the host, to make theirs.
  void runAhead(int leader, int first, int steps) {
    const std::string word = world_.folder + "/go-" + std::to_string(first);
    std::vector<std::unique_ptr<Floats>> staged;
    for (int step = first; step < first + steps; ++step)
      for (const auto& bucket : buckets_) staged.push_back(bucket->staged(world_, step, stream_));
    while (world_.rank != leader && !std::filesystem::exists(word))
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    for (size_t i = 0; i < staged.size(); ++i) {
      buckets_[i % buckets_.size()]->take(*staged[i], stream_);
      buckets_[i % buckets_.size()]->allReduce(comm_, stream_);
    }
    if (world_.rank == leader) std::ofstream(word).close();
    check(first + steps - 1, kWorstError);
  }
  // This rank leaves a call of its next steps out, so that NCCL hangs; then it asks, for longer
  // than it takes the ranks to find out, whether the communicator is well, and aborts it.
  ncclResult_t leaveOutACall() {
    for (size_t i = world_.rank == 0 ? 0 : 1; i < 2 * buckets_.size(); ++i)
      buckets_[i % buckets_.size()]->allReduce(comm_, stream_);
    ncclResult_t state = ncclSuccess;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(15);
    while (state == ncclSuccess && std::chrono::steady_clock::now() < until) {
      CHECK(ncclCommGetAsyncError(comm_, &state));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    CHECK(ncclCommAbort(std::exchange(comm_, nullptr)));
    return state;
  }
  // As a framework's watchdog: from another thread, aborts the communicator when no step has ended
  // for that time, wherever the program is then. The program makes no call once it knows.
  void trainWatched(int steps, std::chrono::milliseconds patience) {
    std::atomic<int> nEnded{0};
    std::atomic<bool> isOver{false}, isAborted{false};
    std::thread watchdog([&] {
      auto since = std::chrono::steady_clock::now();
      for (int seen = 0; !isOver;) {
        std::this_thread::sleep_for(patience / 100);
        const auto now = std::chrono::steady_clock::now();
        if (std::exchange(seen, nEnded) != nEnded) since = now;
        if (now - since < patience) continue;
        isAborted = true;
        std::this_thread::sleep_for(patience / 100);  // a call may just begin
        CHECK(ncclCommAbort(comm_));
        return;
      }
    });
    while (nEnded < steps && endsStep(nEnded, isAborted)) ++nEnded;
    isOver = true;
    watchdog.join();
    if (isAborted) comm_ = nullptr;
  }
  // As train(), but all calls of a step are in a graph.
  void replay(int first, int steps) {
    const cudaGraphExec_t exec = capture();
    for (int step = first; step < first + steps; ++step) {
      fill(step);
      CHECK(cudaGraphLaunch(exec, stream_));
      check(step, kRounding);
    }
    CHECK(cudaGraphExecDestroy(exec));
  }
  // As train(), but from a step on the calls of one rank come from a graph, and all are exact.
  void trainBesideAGraph(bool isCapturing, int from) {
    cudaGraphExec_t exec = nullptr;
    for (int step = 0; step < kTrainingSteps; ++step) {
      if (isCapturing && step == from) exec = capture();
      fill(step);
      if (exec == nullptr)
        reduce();
      else
        CHECK(cudaGraphLaunch(exec, stream_));
      check(step, kRounding);
      averageLoss(step);
    }
    if (exec != nullptr) CHECK(cudaGraphExecDestroy(exec));
  }

 private:
  void fill(int step) {
    for (const auto& bucket : buckets_) bucket->fill(world_, step, stream_);
  }
  void reduce() {
    for (const auto& bucket : buckets_) bucket->allReduce(comm_, stream_);
  }
  // False where it does not end, as the communicator is aborted.
  bool endsStep(int step, const std::atomic<bool>& isAborted) {
    fill(step);
    for (const auto& bucket : buckets_)
      if (isAborted || bucket->tryAllReduce(comm_, stream_) != ncclSuccess) return false;
    while (cudaStreamQuery(stream_) == cudaErrorNotReady) {
      if (isAborted) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return !isAborted;
  }
  cudaGraphExec_t capture() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    reduce();
    CHECK(cudaStreamEndCapture(stream_, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
  }
  void check(int step, double worstError) {
    await(comm_, stream_);
    for (const auto& bucket : buckets_) bucket->check(world_, step, worstError, stream_);
  }
  void averageLoss(int step) {
    loss_.fill(world_.rank, step, stream_);
    CHECK(ncclAllReduce(loss_.data(), loss_.data(), 1, ncclFloat32, ncclSum, comm_, stream_));
    await(comm_, stream_);
    expectExact(loss_.read(stream_), sumOf(everybody(world_), step), "loss");
  }

  const World& world_;
  ncclComm_t comm_;
  cudaStream_t stream_;
  Floats loss_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
};

void trains(const World& world) {
  Job(world).train(kTrainingSteps);
}

int numberFrom(const char* variable, int otherwise) {
  const char* const given = getenv(variable);
  return given == nullptr ? otherwise : atoi(given);
}

// When everything is learned, until `go` is in the folder: whoever looks on knows when to begin.
void trainsSteadily(const World& world) {
  Job job(world);
  job.train(kTrainingSteps);
  std::ofstream(world.folder + "/steady-" + std::to_string(world.rank)).close();
  while (!std::filesystem::exists(world.folder + "/go"))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const int steps = numberFrom("TEST_STEPS", 100);
  const CountAllocations count = allocationCounter();
  const uint64_t before = count == nullptr ? 0 : count();
  for (int step = 0; step < steps; ++step) job.trainStep(kTrainingSteps + step);
  if (count != nullptr) printf("allocations %lu\n", static_cast<unsigned long>(count() - before));
}

// What is learned of a step does not reach into a capture.
void trainsInAGraph(const World& world) {
  Job job(world);
  job.train(10);
  job.replay(10, 3);
}

// Calls beside the gradients: a norm whose signature is that of the loss, a maximum and counts that
// are as large as buckets, a list of numbers, and an order like that of DDP's buckets. From some
// step on each comes from a graph, which a rank makes, makes anew and gives up when it pleases.
class SideCalls {
 public:
  SideCalls(const World& world, ncclComm_t comm, cudaStream_t stream)
      : world_(world),
        comm_(comm),
        stream_(stream),
        norm_(1),
        many_(kMany),
        counts_(2 * kMany),
        list_(kListed * static_cast<size_t>(world.ranks)) {}
  ~SideCalls() {
    for (size_t call = 0; call < kCalls; ++call) release(call);
  }

  static constexpr size_t kCalls = 5;

  void capture(size_t call) {
    release(call);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    make(call);
    CHECK(cudaStreamEndCapture(stream_, &graph));
    CHECK(cudaGraphInstantiate(&graphs_[call], graph, 0));
    CHECK(cudaGraphDestroy(graph));
  }
  void captureAll() {
    for (size_t call = 0; call < kCalls; ++call) capture(call);
  }
  void release(size_t call) {
    if (graphs_[call] != nullptr) CHECK(cudaGraphExecDestroy(graphs_[call]));
    graphs_[call] = nullptr;
  }
  void step(int step) {
    norm_.fill(world_.rank, step, stream_);
    for (size_t call = 0; call < kCalls; ++call) {
      if (graphs_[call] == nullptr)
        make(call);
      else
        CHECK(cudaGraphLaunch(graphs_[call], stream_));
    }
    await(comm_, stream_);
    expectExact(norm_.read(stream_), sumOf(everybody(world_), step), "norm");
  }

 private:
  static constexpr size_t kMany = 50000, kListed = 16;

  void make(size_t call) {
    const auto reduce = [this](const Floats& values, size_t count, ncclDataType_t type,
                               ncclRedOp_t op) {
      CHECK(ncclAllReduce(values.data(), values.data(), count, type, op, comm_, stream_));
    };
    if (call == 0) return reduce(norm_, 1, ncclFloat32, ncclSum);
    if (call == 1) return reduce(many_, kMany, ncclFloat32, ncclMax);
    if (call == 2) return reduce(counts_, kMany, ncclInt64, ncclSum);
    if (call == 3)
      return CHECK(
          ncclBroadcast(list_.data(), list_.data(), kListed, ncclInt32, 0, comm_, stream_));
    const float* const own = list_.data() + kListed * static_cast<size_t>(world_.rank);
    CHECK(ncclAllGather(own, list_.data(), kListed, ncclInt32, comm_, stream_));
  }

  const World& world_;
  ncclComm_t comm_;
  cudaStream_t stream_;
  cudaGraphExec_t graphs_[kCalls] = {};
  Floats norm_, many_, counts_, list_;
};

// What ranks capture when they please must not change what they learn of the step.
void trainBeside(const World& world, const std::function<void(SideCalls&, int step)>& capture) {
  Job job(world);
  SideCalls calls(world, job.comm(), job.stream());
  for (int step = 0; step < kTrainingSteps; ++step) {
    capture(calls, step);
    job.trainStep(step);
    calls.step(step);
  }
}

// One rank captures a step before the others.
void oneRankCapturesEarlier(const World& world) {
  trainBeside(world, [&](SideCalls& calls, int step) {
    if (step == (world.rank == 0 ? 3 : 4)) calls.captureAll();
  });
}

// When all is learned, one rank makes its graphs anew.
void oneRankCapturesAgain(const World& world) {
  trainBeside(world, [&](SideCalls& calls, int step) {
    if (step == 2 || (world.rank == 0 && step == 15)) calls.captureAll();
  });
}

// Each rank by its own dice; TEST_SEED says which.
void ranksCaptureAtRandom(const World& world) {
  const char* const seed = getenv("TEST_SEED");
  std::mt19937 random(static_cast<uint32_t>(2 * atoi(seed == nullptr ? "0" : seed) + world.rank));
  trainBeside(world, [&](SideCalls& calls, int) {
    for (size_t call = 0; call < SideCalls::kCalls; ++call) {
      const uint32_t dice = random() % 8;
      if (dice == 0) calls.capture(call);
      if (dice == 1) calls.release(call);
    }
  });
}

// For some seconds, in which a rank may be stopped for ever.
void trainsWatched(const World& world) {
  Job(world).trainWatched(8 * kTrainingSteps, std::chrono::seconds(3));
}

// Whatever the ranks are just finding out, and whoever is ahead.
void runsAhead(const World& world) {
  Job job(world);
  constexpr int kAhead = 8;
  for (int step = 0, turn = 0; step < 2 * kTrainingSteps; step += kAhead, ++turn) {
    for (int together = 0; together < turn % 4; ++together) job.trainStep(step++);
    job.runAhead(turn % 2, step, kAhead);
  }
}

// The ranks are never at one call together: NCCL cannot connect them for what would be compressed.
void runsAlwaysAhead(const World& world) {
  Job job(world);
  const int ahead = numberFrom("TEST_AHEAD", 8);
  for (int step = 0; step < 2 * kTrainingSteps; step += ahead) job.runAhead(0, step, ahead);
}

// A fault of the program's, in the midst of its training, or before anything is compressed, where
// the answer is NCCL's alone.
void oneRankLeavesOutACall(const World& world) {
  Job job(world);
  job.train(20);
  EXPECT(job.leaveOutACall() == ncclRemoteError);
}
void oneRankLeavesOutAnEarlyCall(const World& world) {
  Job job(world);
  EXPECT(job.leaveOutACall() == ncclSuccess);
}

// What could be compressed is in a graph on one rank alone: the others must not wait for its votes.
void gradientsInAGraphOfRank0(const World& world) {
  Job(world).trainBesideAGraph(world.rank == 0, 0);
}
void gradientsInAGraphOfRank1(const World& world) {
  Job(world).trainBesideAGraph(world.rank == 1, 3);
}

// One call over and over, longer than it takes to find that it has a period.
void repeats(const World& world, ncclRedOp_t op, int calls) {
  const ncclComm_t comm = makeWorldComm(world);
  const cudaStream_t stream = makeStream();
  Floats buffer(20000);
  const double factor = op == ncclAvg ? 1.0 / world.ranks : 1;
  for (int call = 0; call < calls; ++call) {
    buffer.fill(world.rank, call, stream);
    CHECK(
        ncclAllReduce(buffer.data(), buffer.data(), buffer.count(), ncclFloat32, op, comm, stream));
    await(comm, stream);
    const std::string label = "call" + std::to_string(call);
    const Exact exact = sumOf(everybody(world), call, 0, factor);
    expectExact(buffer.read(stream), exact, label);
    expectSameEverywhere(buffer.read(stream), label);
  }
  CHECK(ncclCommDestroy(comm));
}

constexpr int kRepetitions = 270;

void repeatsASum(const World& world) {
  repeats(world, ncclSum, kRepetitions);
}

void repeatsAnAverage(const World& world) {
  repeats(world, ncclAvg, kRepetitions);
}

}  // namespace

const std::vector<Case>& defaultCases() {
  static const std::vector<Case> cases = {
      {"default-training", 2, trains},
      {"default-steady-training", 2, trainsSteadily},
      {"default-graph", 2, trainsInAGraph},
      {"default-graph-earlier-on-one-rank", 2, oneRankCapturesEarlier},
      {"default-graph-again-on-one-rank", 2, oneRankCapturesAgain},
      {"default-graph-at-random", 2, ranksCaptureAtRandom},
      {"default-graph-of-gradients-on-rank-0", 2, gradientsInAGraphOfRank0},
      {"default-graph-of-gradients-on-rank-1", 2, gradientsInAGraphOfRank1},
      {"default-watched-training", 2, trainsWatched},
      {"default-run-ahead", 2, runsAhead},
      {"default-always-ahead", 2, runsAlwaysAhead},
      {"default-one-rank-leaves-out-a-call", 2, oneRankLeavesOutACall},
      {"default-one-rank-leaves-out-an-early-call", 2, oneRankLeavesOutAnEarlyCall},
      {"default-repeated-sum", 2, repeatsASum},
      {"default-repeated-average", 2, repeatsAnAverage},
  };
  return cases;
}

}  // namespace surface
