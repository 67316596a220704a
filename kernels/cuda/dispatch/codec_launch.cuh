// What the launches of the codec share: checks, rows of shards, and small calls that go together.
#pragma once

#include <algorithm>
#include <span>
#include <utility>

#include "kernels/cuda/agent/launch_batch.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/instance.h"

namespace cinch::cuda {

inline bool isCodedBuffer(const uint8_t* buffer) {
  return reinterpret_cast<uintptr_t>(buffer) % 16 == 0;
}
inline bool hasAlignedCodes(const EncodeLaunch& launch) {
  return isCodedBuffer(launch.output);
}
inline bool hasAlignedCodes(const ReduceLaunch& launch) {
  return isCodedBuffer(launch.peers) && isCodedBuffer(launch.ownCodes) &&
         isCodedBuffer(launch.output);
}
inline bool hasAlignedCodes(const DecodeLaunch& launch) {
  return isCodedBuffer(launch.input);
}

// Tiles that a row of the grid shares. Mixed shards are described in device memory; none has more
// tiles than the bucket, and a chunk seldom more than its share. Rows that have more go on with
// them.
inline uint64_t tilesOfRow(const wire::ShardLayout& layout) {
  return layout.isMixed() ? layout.tiles() / layout.nChunks + 1 : layout.shardTiles(0);
}

// Enqueues a launch alone, by its own kernel or, where that is null, by the one for anything, which
// takes several launches.
template <class Launch>
cudaError_t launchOne(Kernel<Launch> own, Kernel<LaunchBatch<Launch>> any, const Launch& launch,
                      void* stream) {
  if (!isKnown(launch.call)) return cudaErrorInvalidValue;
  const uint64_t nTiles = tilesOfRow(launch.call.layout);
  if (own) return launchRows(own, nTiles, rowsOf(launch), launch, stream);
  LaunchBatch<Launch> alone;
  alone.launches[0] = launch;
  return launchRows(any, nTiles, rowsOf(launch), alone, stream);
}

// Tiles of values that go through a launch, or of codes, where those of several ranks are added up.
template <class Launch>
uint64_t tilesOf(const Launch& launch) {
  return tilesOfRow(launch.call.layout) * rowsOf(launch);
}
inline uint64_t tilesOf(const ReduceLaunch& launch) {
  return tilesOfRow(launch.call.layout) * launch.nParts();
}

// Gathers launches of small calls, and enqueues them by `kernel`, as many as it takes at a time;
// one that is left by `alone(launch)`.
template <class Launch, class Alone>
class Batcher {
 public:
  Batcher(Kernel<LaunchBatch<Launch>> kernel, void* stream, const Alone& alone)
      : kernel_(kernel), stream_(stream), alone_(alone) {}

  static bool takes(const Launch& launch) { return tilesOf(launch) <= kMaxBatchedTiles; }
  cudaError_t add(const Launch& launch) {
    if (!isKnown(launch.call)) return cudaErrorInvalidValue;
    batch_.launches[n_++] = launch;
    nTiles_ = std::max(nTiles_, tilesOfRow(launch.call.layout));
    nRows_ = std::max(nRows_, rowsOf(launch));
    return n_ == LaunchBatch<Launch>::kMost ? flush() : cudaSuccess;
  }
  cudaError_t flush() {
    const uint32_t n = std::exchange(n_, 0);
    if (n <= 1) return n == 0 ? cudaSuccess : alone_(batch_.launches[0]);
    dim3 grid;
    if (const cudaError_t error = gridFor(handleOf(kernel_), nTiles_, nRows_, &grid, n))
      return error;
    nRows_ = 0;
    nTiles_ = 0;
    return launchGrid(kernel_, grid, kThreadsPerCta, batch_, stream_);
  }

 private:
  const Kernel<LaunchBatch<Launch>> kernel_;
  void* const stream_;
  const Alone& alone_;
  LaunchBatch<Launch> batch_;
  uint32_t n_ = 0;
  uint32_t nRows_ = 0;
  uint64_t nTiles_ = 0;
};

// Enqueues launches, small ones together, by `any` or the kernels that `kernelOf` has for them
// (ownKernel() of instance.h).
template <class Launch, class KernelOf>
cudaError_t launchAll(std::span<const Launch> launches, Kernel<LaunchBatch<Launch>> any,
                      void* stream, const KernelOf& kernelOf) {
  const auto alone = [&](const Launch& launch) {
    return launchOne(ownKernel<Kernel<Launch>>(launch, kernelOf), any, launch, stream);
  };
  if (!std::ranges::all_of(launches, [](const Launch& each) { return hasAlignedCodes(each); }))
    return cudaErrorMisalignedAddress;
  Batcher<Launch, decltype(alone)> batcher(any, stream, alone);
  for (const Launch& launch : launches) {
    const cudaError_t error = batcher.takes(launch) ? batcher.add(launch) : alone(launch);
    if (error) return error;
  }
  return batcher.flush();
}

}  // namespace cinch::cuda
