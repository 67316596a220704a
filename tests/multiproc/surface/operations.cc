// Kinds of calls, operations, buffers.
#include <algorithm>
#include <memory>

#include "tests/multiproc/surface/program.h"

namespace surface {
namespace {

constexpr int kCalls = 6;

struct Bench {
  explicit Bench(const World& world, const std::string& name = "world")
      : world(world),
        comm(makeWorldComm(world, name)),
        stream(makeStream()),
        everyone(everybody(world)) {}
  ~Bench() {
    ncclCommDestroy(comm);
    cudaStreamDestroy(stream);
  }
  size_t ranks() const { return everyone.size(); }

  const World& world;
  ncclComm_t comm;
  cudaStream_t stream;
  std::vector<int> everyone;
};

std::vector<float> slice(const std::vector<float>& values, size_t first, size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

void average(const World& world) {
  Bench bench(world);
  Floats buffer(40003);
  for (int call = 0; call < kCalls; ++call) {
    buffer.fill(world.rank, call, bench.stream);
    CHECK(ncclAllReduce(buffer.data(), buffer.data(), buffer.count(), ncclFloat32, ncclAvg,
                        bench.comm, bench.stream));
    await(bench.comm, bench.stream);
    expectStep(call, buffer.read(bench.stream), sumOf(bench.everyone, call, 0, 1.0 / world.ranks),
               "average");
    expectSameEverywhere(buffer.read(bench.stream), "average" + std::to_string(call));
  }
}

// Sum of each rank's values times its own scalar.
Exact scaledSum(const Bench& bench, int call, double base) {
  return [&bench, call, base](size_t i) {
    double sum = 0;
    for (const int rank : bench.everyone) sum += (base + rank) * valueOf(rank, call, i);
    return sum;
  };
}

// The operation is gone, and its handle in use for another scalar, before the group ends.
void scaledByHost(const World& world) {
  Bench bench(world);
  Floats in(40003), out(40003);
  for (int call = 0; call < kCalls; ++call) {
    in.fill(world.rank, call, bench.stream);
    float scalar = 0.5f + static_cast<float>(world.rank);
    ncclRedOp_t op, other;
    CHECK(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, bench.comm));
    scalar = 1e30f;  // read at creation, never again
    CHECK(ncclGroupStart());
    CHECK(ncclAllReduce(in.data(), out.data(), in.count(), ncclFloat32, op, bench.comm,
                        bench.stream));
    CHECK(ncclRedOpDestroy(op, bench.comm));
    CHECK(ncclRedOpCreatePreMulSum(&other, &scalar, ncclFloat32, ncclScalarHostImmediate,
                                   bench.comm));
    CHECK(ncclGroupEnd());
    CHECK(ncclRedOpDestroy(other, bench.comm));
    await(bench.comm, bench.stream);
    expectStep(call, out.read(bench.stream), scaledSum(bench, call, 0.5), "scaled");
    expectSameEverywhere(out.read(bench.stream), "scaled" + std::to_string(call));
  }
}

// The same of a call that passes, but waits for that of another communicator to keep its place in
// the group.
void scaledBehindAnother(const World& world) {
  Bench bench(world), other(world, "other");
  Floats in(40003), out(40003), passed(40003);
  for (int call = 0; call < kCalls; ++call) {
    in.fill(world.rank, call, bench.stream);
    await(bench.comm, bench.stream);
    float scalar = 0.5f + static_cast<float>(world.rank);
    ncclRedOp_t op, next;
    CHECK(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, other.comm));
    scalar = 1e30f;
    CHECK(ncclGroupStart());
    CHECK(ncclAllReduce(in.data(), out.data(), in.count(), ncclFloat32, ncclSum, bench.comm,
                        bench.stream));
    CHECK(ncclReduce(in.data(), passed.data(), in.count(), ncclFloat32, op, 0, other.comm,
                     other.stream));
    CHECK(ncclRedOpDestroy(op, other.comm));
    CHECK(
        ncclRedOpCreatePreMulSum(&next, &scalar, ncclFloat32, ncclScalarHostImmediate, other.comm));
    CHECK(ncclGroupEnd());
    CHECK(ncclRedOpDestroy(next, other.comm));
    await(bench.comm, bench.stream);
    await(other.comm, other.stream);
    expectStep(call, out.read(bench.stream), sumOf(bench.everyone, call), "before it");
    if (world.rank == 0)
      expectExact(passed.read(other.stream), scaledSum(other, call, 0.5), "passed on");
  }
}

// The scalar is in device memory and set by work of the same stream.
void scaledByDevice(const World& world) {
  Bench bench(world);
  Floats in(40003), out(40003), scalar(1);
  for (int call = 0; call < kCalls; ++call) {
    in.fill(world.rank, call, bench.stream);
    ncclRedOp_t op;
    CHECK(ncclRedOpCreatePreMulSum(&op, scalar.data(), ncclFloat32, ncclScalarDevice, bench.comm));
    const float value = 2.0f + static_cast<float>(world.rank);
    CHECK(
        cudaMemcpyAsync(scalar.data(), &value, sizeof value, cudaMemcpyHostToDevice, bench.stream));
    CHECK(ncclAllReduce(in.data(), out.data(), in.count(), ncclFloat32, op, bench.comm,
                        bench.stream));
    CHECK(ncclRedOpDestroy(op, bench.comm));
    await(bench.comm, bench.stream);
    expectStep(call, out.read(bench.stream), scaledSum(bench, call, 2.0), "scaled");
  }
}

void reduceScatter(const World& world) {
  Bench bench(world);
  constexpr size_t kShard = 20011;
  Floats in(kShard * bench.ranks()), out(kShard);
  const size_t first = kShard * static_cast<size_t>(world.rank);
  for (int call = 0; call < kCalls; ++call) {
    in.fill(world.rank, call, bench.stream);
    CHECK(ncclReduceScatter(in.data(), out.data(), kShard, ncclFloat32, ncclSum, bench.comm,
                            bench.stream));
    await(bench.comm, bench.stream);
    expectStep(call, out.read(bench.stream), sumOf(bench.everyone, call, first), "scatter");
  }
}

// The own shard of the input is overwritten, the rest of it left alone.
void reduceScatterInPlace(const World& world) {
  Bench bench(world);
  constexpr size_t kShard = 20011;
  Floats buffer(kShard * bench.ranks());
  const size_t first = kShard * static_cast<size_t>(world.rank);
  for (int call = 0; call < kCalls; ++call) {
    buffer.fill(world.rank, call, bench.stream);
    CHECK(ncclReduceScatter(buffer.data(), buffer.data() + first, kShard, ncclFloat32, ncclAvg,
                            bench.comm, bench.stream));
    await(bench.comm, bench.stream);
    const auto values = buffer.read(bench.stream);
    expectStep(call, slice(values, first, kShard),
               sumOf(bench.everyone, call, first, 1.0 / world.ranks), "in place");
    for (size_t i = 0; i < values.size(); ++i)
      if (i < first || i >= first + kShard)
        if (values[i] != valueOf(world.rank, call, i)) fail("a foreign shard was touched");
  }
}

Exact gathered(int call, size_t shard) {
  return [=](size_t i) { return valueOf(static_cast<int>(i / shard), call, i % shard); };
}

void gatherInto(const World& world, bool inPlace, bool compressed) {
  Bench bench(world);
  constexpr size_t kShard = 20011;
  Floats own(kShard), all(kShard * bench.ranks());
  float* mine = all.data() + kShard * static_cast<size_t>(world.rank);
  for (int call = 0; call < kCalls; ++call) {
    own.fill(world.rank, call, bench.stream);
    const float* send = inPlace ? mine : own.data();
    if (inPlace)
      CHECK(cudaMemcpyAsync(mine, own.data(), kShard * sizeof(float), cudaMemcpyDeviceToDevice,
                            bench.stream));
    CHECK(ncclAllGather(send, all.data(), kShard, ncclFloat32, bench.comm, bench.stream));
    await(bench.comm, bench.stream);
    const auto values = all.read(bench.stream);
    if (compressed)
      expectStep(call, values, gathered(call, kShard), "gather");
    else
      expectExact(values, gathered(call, kShard), "gather");
    expectSameEverywhere(values, "gather" + std::to_string(call));
  }
}

// Weights stay exact unless the user asks otherwise.
void allGather(const World& world) {
  gatherInto(world, false, false);
}
void allGatherCompressed(const World& world) {
  gatherInto(world, false, true);
}
void allGatherCompressedInPlace(const World& world) {
  gatherInto(world, true, true);
}

// Kinds that are never compressed, however often and large.
void exactKinds(const World& world) {
  Bench bench(world);
  const size_t ranks = bench.ranks();
  constexpr size_t kCount = 20000;
  Floats in(kCount * ranks), out(kCount * ranks);
  const auto expectValues = [&](const char* label, const Exact& exact) {
    await(bench.comm, bench.stream);
    expectExact(out.read(bench.stream), exact, label);
  };
  for (int call = 0; call < kCalls; ++call) {
    in.fill(world.rank, call, bench.stream);
    CHECK(ncclAlltoAll(in.data(), out.data(), kCount, ncclFloat32, bench.comm, bench.stream));
    expectValues("all-to-all", [&](size_t i) {
      const size_t shard = static_cast<size_t>(world.rank) * kCount + i % kCount;
      return valueOf(static_cast<int>(i / kCount), call, shard);
    });
    CHECK(ncclAllReduce(in.data(), out.data(), in.count(), ncclFloat32, ncclMin, bench.comm,
                        bench.stream));
    expectValues("minimum", [&](size_t i) {
      float least = valueOf(0, call, i);
      for (const int rank : bench.everyone) least = std::min(least, valueOf(rank, call, i));
      return least;
    });
    CHECK(
        ncclBroadcast(in.data(), out.data(), in.count(), ncclFloat32, 1, bench.comm, bench.stream));
    expectValues("broadcast", [&](size_t i) { return valueOf(1, call, i); });
    out.fill(world.rank, call, bench.stream);
    CHECK(ncclBcast(out.data(), out.count(), ncclFloat32, 0, bench.comm, bench.stream));
    expectValues("bcast", [&](size_t i) { return valueOf(0, call, i); });
    out.fill(world.rank, call, bench.stream);
    CHECK(ncclReduce(in.data(), out.data(), in.count(), ncclFloat32, ncclSum, 1, bench.comm,
                     bench.stream));
    expectValues("reduce",
                 world.rank == 1 ? sumOf(bench.everyone, call) : sumOf({world.rank}, call));
    CHECK(ncclGather(in.data(), out.data(), kCount, ncclFloat32, 0, bench.comm, bench.stream));
    CHECK(ncclScatter(in.data(), out.data(), kCount, ncclFloat32, 1, bench.comm, bench.stream));
    await(bench.comm, bench.stream);
    expectExact(
        slice(out.read(bench.stream), 0, kCount),
        [&](size_t i) { return valueOf(1, call, static_cast<size_t>(world.rank) * kCount + i); },
        "scatter");
  }
}

// With a configuration or without one: ranks need not agree on that.
void configured(const World& world) {
  Bench bench(world);
  Floats values(40003);
  for (int call = 0; call < kCalls; ++call) {
    values.fill(world.rank, call, bench.stream);
    float* const data = values.data();
    const size_t count = values.count();
    if ((world.rank + call) % 2 == 0)
      CHECK(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, bench.comm, bench.stream));
    else
      CHECK(ncclAllReduceConfig(data, data, count, ncclFloat32, ncclSum, bench.comm, bench.stream,
                                nullptr));
    await(bench.comm, bench.stream);
    expectStep(call, values.read(bench.stream), sumOf(bench.everyone, call), "configured");
    expectSameEverywhere(values.read(bench.stream), "configured" + std::to_string(call));
  }
}

// Each of the others between two reductions that are compressed.
void configuredKinds(const World& world) {
  Bench bench(world);
  const size_t ranks = bench.ranks();
  constexpr size_t kCount = 20000;
  const size_t own = static_cast<size_t>(world.rank) * kCount;
  Floats in(kCount * ranks), out(kCount * ranks);
  const auto expectPart = [&](const char* label, size_t count, const Exact& exact) {
    await(bench.comm, bench.stream);
    expectExact(slice(out.read(bench.stream), 0, count), exact, label);
  };
  for (int call = 0; call < kCalls; ++call) {
    in.fill(world.rank, call, bench.stream);
    CHECK(ncclReduceScatterConfig(in.data(), out.data(), kCount, ncclFloat32, ncclSum, bench.comm,
                                  bench.stream, nullptr));
    await(bench.comm, bench.stream);
    expectStep(call, slice(out.read(bench.stream), 0, kCount), sumOf(bench.everyone, call, own),
               "reduce-scatter");
    CHECK(ncclAllGatherConfig(in.data(), out.data(), kCount, ncclFloat32, bench.comm, bench.stream,
                              nullptr));
    expectPart("all-gather", out.count(),
               [&](size_t i) { return valueOf(static_cast<int>(i / kCount), call, i % kCount); });
    CHECK(ncclAlltoAllConfig(in.data(), out.data(), kCount, ncclFloat32, bench.comm, bench.stream,
                             nullptr));
    expectPart("all-to-all", out.count(), [&](size_t i) {
      return valueOf(static_cast<int>(i / kCount), call, own + i % kCount);
    });
    CHECK(ncclBroadcastConfig(in.data(), out.data(), in.count(), ncclFloat32, 1, bench.comm,
                              bench.stream, nullptr));
    expectPart("broadcast", out.count(), [&](size_t i) { return valueOf(1, call, i); });
    out.fill(world.rank, call, bench.stream);
    CHECK(ncclReduceConfig(in.data(), out.data(), in.count(), ncclFloat32, ncclSum, 1, bench.comm,
                           bench.stream, nullptr));
    expectPart("reduce", out.count(),
               world.rank == 1 ? sumOf(bench.everyone, call) : sumOf({world.rank}, call));
    CHECK(ncclGatherConfig(in.data(), out.data(), kCount, ncclFloat32, 0, bench.comm, bench.stream,
                           nullptr));
    CHECK(ncclScatterConfig(in.data(), out.data(), kCount, ncclFloat32, 1, bench.comm, bench.stream,
                            nullptr));
    expectPart("scatter", kCount, [&](size_t i) { return valueOf(1, call, own + i); });
  }
}

void integersAndDoubles(const World& world) {
  Bench bench(world);
  constexpr size_t kCount = 30000;
  std::vector<int64_t> values(kCount);
  void* buffer = nullptr;
  CHECK(cudaMalloc(&buffer, kCount * sizeof(int64_t)));
  for (int call = 0; call < kCalls; ++call) {
    for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<int64_t>(i) * (world.rank + 1);
    CHECK(cudaMemcpy(buffer, values.data(), kCount * 8, cudaMemcpyHostToDevice));
    CHECK(ncclAllReduce(buffer, buffer, kCount, ncclInt64, ncclSum, bench.comm, bench.stream));
    await(bench.comm, bench.stream);
    CHECK(cudaMemcpy(values.data(), buffer, kCount * 8, cudaMemcpyDeviceToHost));
    const int64_t factor = world.ranks * (world.ranks + 1) / 2;
    for (size_t i = 0; i < kCount; ++i) EXPECT(values[i] == static_cast<int64_t>(i) * factor);
  }
  CHECK(cudaFree(buffer));
}

void zeroAndSmallCounts(const World& world) {
  Bench bench(world);
  Floats buffer(64);
  for (int call = 0; call < kCalls; ++call)
    for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{64}}) {
      buffer.fill(world.rank, call, bench.stream);
      CHECK(ncclAllReduce(buffer.data(), buffer.data(), count, ncclFloat32, ncclSum, bench.comm,
                          bench.stream));
      await(bench.comm, bench.stream);
      expectExact(slice(buffer.read(bench.stream), 0, count), sumOf(bench.everyone, call), "small");
    }
  CHECK(ncclReduceScatter(buffer.data(), buffer.data(), 0, ncclFloat32, ncclSum, bench.comm,
                          bench.stream));
  CHECK(ncclAllGather(buffer.data(), buffer.data(), 0, ncclFloat32, bench.comm, bench.stream));
  await(bench.comm, bench.stream);
}

// What NCCL refuses it refuses still, and it does not count.
void refusals(const World& world) {
  Bench bench(world);
  Floats in(40003), out(40003);
  for (int call = 0; call < kCalls; ++call) {
    in.fill(world.rank, call, bench.stream);
    for (int repeat = 0; repeat <= world.rank; ++repeat) {  // more often on some ranks
      EXPECT_RESULT(ncclAllReduce(in.data(), nullptr, in.count(), ncclFloat32, ncclSum, bench.comm,
                                  bench.stream),
                    ncclInvalidArgument);
      EXPECT_RESULT(
          ncclAllReduce(in.data(), out.data(), in.count(), static_cast<ncclDataType_t>(77), ncclSum,
                        bench.comm, bench.stream),
          ncclInvalidArgument);
    }
    CHECK(ncclAllReduce(in.data(), out.data(), in.count(), ncclFloat32, ncclSum, bench.comm,
                        bench.stream));
    await(bench.comm, bench.stream);
    expectStep(call, out.read(bench.stream), sumOf(bench.everyone, call), "after");
  }
}

}  // namespace

const std::vector<Case>& operationCases() {
  static const std::vector<Case> cases = {
      {"operation-average", 3, average},
      {"operation-scaled-by-host", 3, scaledByHost},
      {"operation-scaled-behind-another", 2, scaledBehindAnother},
      {"operation-scaled-by-device", 2, scaledByDevice},
      {"operation-reduce-scatter", 3, reduceScatter},
      {"operation-reduce-scatter-in-place", 3, reduceScatterInPlace},
      {"operation-all-gather", 2, allGather},
      {"operation-all-gather-compressed", 3, allGatherCompressed},
      {"operation-all-gather-compressed-in-place", 2, allGatherCompressedInPlace},
      {"operation-exact-kinds", 3, exactKinds},
      {"operation-configured", 3, configured},
      {"operation-configured-kinds", 3, configuredKinds},
      {"operation-integers", 2, integersAndDoubles},
      {"operation-zero-and-small-counts", 3, zeroAndSmallCounts},
      {"operation-refusals", 2, refusals},
  };
  return cases;
}

}  // namespace surface
