#include "kernels/cuda/agent/encode_agent.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

template <ElementType type, wire::Codec codec, Kept kept>
__global__ void __launch_bounds__(kThreadsPerCta, ctasForRegisters(kept))
    encodeKernel(const __grid_constant__ EncodeLaunch launch) {
  const bool isSkipped = static_cast<int64_t>(blockIdx.y) == launch.skipShard;
  if (!isSkipped) EncodeAgent<type, codec, kept>(launch, blockIdx.y).run();
}

template <ElementType type, wire::Codec codec>
auto kernelFor(Kept kept) {
  switch (kept) {
    case Kept::codes:
      return encodeKernel<type, codec, Kept::codes>;
    case Kept::residual:
      return encodeKernel<type, codec, Kept::residual>;
    default:
      return encodeKernel<type, codec, Kept::statistics>;
  }
}

}  // namespace

int launchEncode(const EncodeLaunch* launch, void* stream) {
  const wire::ShardLayout& layout = launch->call.layout;
  if (!isCodedBuffer(launch->output)) return cudaErrorMisalignedAddress;
  dim3 grid;
  const uint64_t nBlocks = layout.shardTiles(0) * wire::kTileBlocks;
  if (const cudaError_t error = gridFor(nBlocks, layout.nShards, &grid)) return error;
  return withInstance(
      launch->call, cudaErrorInvalidValue, [&]<ElementType type, wire::Codec codec>() {
        return launchGrid(kernelFor<type, codec>(keptBy(*launch)), grid, *launch, stream);
      });
}

}  // namespace cinch::cuda
