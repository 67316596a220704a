// What real jobs do between steps that could make a later call look like an earlier one. The codec
// keeps residuals here, so that a mix-up would show.
#include <map>
#include <memory>

#include "tests/multiproc/surface/program.h"

namespace surface {
namespace {

// AllReduces of buckets whose sizes a job changes, and of scalars, on one communicator.
class Job {
 public:
  explicit Job(const World& world)
      : world_(world), comm_(makeWorldComm(world)), stream_(makeStream()) {}
  ~Job() { ncclCommDestroy(comm_); }

  // One step of training; every bucket's result is checked.
  void step(const std::vector<size_t>& sizes) {
    for (const size_t size : sizes) reduce(bucketOf(size), size);
  }
  // The same with buffers that were allocated a moment ago, perhaps at the address of others.
  void stepWithFreshBuffers(const std::vector<size_t>& sizes) {
    for (const size_t size : sizes) {
      Floats bucket(size);
      reduce(bucket, size);
    }
  }
  // A metric: small sums must stay exact.
  void scalar() {
    Floats& value = bucketOf(1);
    value.fill(world_.rank, ++step_, stream_);
    allReduce(value);
    expectExact(value.read(stream_), sumOf(everybody(world_), step_), "scalar");
  }
  // PyTorch DDP announces a new order of its buckets so.
  void announceLayout() {
    Floats& order = bucketOf(16);
    CHECK(ncclBroadcast(order.data(), order.data(), 16, ncclInt32, 0, comm_, stream_));
    await(comm_, stream_);
  }

 private:
  Floats& bucketOf(size_t size) {
    auto& bucket = buckets_[size];
    if (bucket == nullptr) bucket = std::make_unique<Floats>(size);
    return *bucket;
  }
  void allReduce(Floats& bucket) {
    CHECK(ncclAllReduce(bucket.data(), bucket.data(), bucket.count(), ncclFloat32, ncclSum, comm_,
                        stream_));
    await(comm_, stream_);
  }
  void reduce(Floats& bucket, size_t size) {
    bucket.fill(world_.rank, ++step_, stream_);
    allReduce(bucket);
    const auto values = bucket.read(stream_);
    const std::string label = std::to_string(size) + "-" + std::to_string(step_);
    expectStep(seen_[size]++, values, sumOf(everybody(world_), step_), label);
    expectSameEverywhere(values, label);
  }

  const World& world_;
  ncclComm_t comm_;
  cudaStream_t stream_;
  std::map<size_t, std::unique_ptr<Floats>> buckets_;
  std::map<size_t, int> seen_;  // calls so far, by size
  int step_ = 0;
};

constexpr size_t kA = 40003, kB = 30011, kC = 20021;

// DDP lays out its buckets anew after the first iteration.
void bucketRebuild(const World& world) {
  Job job(world);
  job.step({kA, kB});
  job.announceLayout();
  for (int i = 0; i < 6; ++i) job.step({kC, kB, kA});
}

void evaluationBetweenSteps(const World& world) {
  Job job(world);
  for (int i = 0; i < 12; ++i) {
    job.step({kA, kB});
    job.scalar();
    if (i % 3 == 2) job.step({kC});
    if (i % 4 == 3) job.scalar();
  }
}

void frozenLayers(const World& world) {
  Job job(world);
  for (int i = 0; i < 5; ++i) job.step({kA, kB, kC});
  for (int i = 0; i < 5; ++i) job.step({kC});
  for (int i = 0; i < 3; ++i) job.step({kA, kB, kC});
}

// Tensor parallelism: one size, one address, another layer at every call.
void activationsOfOneSize(const World& world) {
  Job job(world);
  for (int i = 0; i < 4; ++i) job.step({kA, kA, kA, kA});
}

void alternatingModels(const World& world) {
  Job job(world);
  for (const int generator : {1, 0, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0})
    job.step(generator ? std::vector<size_t>{kA, kC} : std::vector<size_t>{kB});
}

// Gradients are accumulated over steps that send nothing.
void accumulation(const World& world) {
  Job job(world);
  for (int i = 0; i < 12; ++i) {
    if (i % 3 == 2) job.step({kA, kB});
    job.scalar();
  }
  for (int i = 0; i < 4; ++i) job.step({kA, kB});
}

void recycledAddresses(const World& world) {
  Job job(world);
  for (int i = 0; i < 6; ++i) job.stepWithFreshBuffers({kA, kA, kB, kA});
}

}  // namespace

const std::vector<Case>& trapCases() {
  static const std::vector<Case> cases = {
      {"trap-bucket-rebuild", 2, bucketRebuild},
      {"trap-evaluation-between-steps", 2, evaluationBetweenSteps},
      {"trap-frozen-layers", 3, frozenLayers},
      {"trap-activations-of-one-size", 2, activationsOfOneSize},
      {"trap-alternating-models", 2, alternatingModels},
      {"trap-accumulation", 2, accumulation},
      {"trap-recycled-addresses", 3, recycledAddresses},
  };
  return cases;
}

}  // namespace surface
