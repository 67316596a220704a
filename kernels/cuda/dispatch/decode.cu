#include "kernels/cuda/agent/decode_agent.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

template <ElementType type, wire::Codec codec>
__global__ void __launch_bounds__(kThreadsPerCta)
    decodeKernel(const __grid_constant__ DecodeLaunch launch) {
  DecodeAgent<type, codec>(launch, blockIdx.y).run();
}

}  // namespace

int launchDecode(const DecodeLaunch* launch, void* stream) {
  const wire::ShardLayout& layout = launch->call.layout;
  if (!isCodedBuffer(launch->input)) return cudaErrorMisalignedAddress;
  dim3 grid;
  const uint64_t nBlocks = layout.shardTiles(0) * wire::kTileBlocks;
  if (const cudaError_t error = gridFor(nBlocks, layout.nShards, &grid)) return error;
  return withInstance(launch->call, cudaErrorInvalidValue,
                      [&]<ElementType type, wire::Codec codec>() {
                        return launchGrid(decodeKernel<type, codec>, grid, *launch, stream);
                      });
}

}  // namespace cinch::cuda
