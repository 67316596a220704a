#include "kernels/cuda/agent/reduce_agent.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

template <ElementType type, wire::Codec codec, Kept kept>
__global__ void __launch_bounds__(kThreadsPerCta, ctasForRegisters(kept))
    reduceKernel(const __grid_constant__ ReduceLaunch launch) {
  ReduceAgent<type, codec, kept>(launch).run();
}

template <ElementType type, wire::Codec codec>
__global__ void __launch_bounds__(kThreadsPerCta, ctasForRegisters(Kept::codes))
    reduceIntoValuesKernel(const __grid_constant__ ReduceLaunch launch) {
  ReduceIntoValuesAgent<type, codec>(launch).run();
}

template <ElementType type, wire::Codec codec>
auto kernelFor(const ReduceLaunch& launch) {
  if (launch.values) return reduceIntoValuesKernel<type, codec>;
  return keptBy(launch) == Kept::statistics ? reduceKernel<type, codec, Kept::statistics>
                                            : reduceKernel<type, codec, Kept::residual>;
}

}  // namespace

int launchReduce(const ReduceLaunch* launch, void* stream) {
  const wire::ShardLayout& layout = launch->call.layout;
  if (!isCodedBuffer(launch->peers) || !isCodedBuffer(launch->output))
    return cudaErrorMisalignedAddress;
  dim3 grid;
  const uint64_t nBlocks = layout.shardTiles(0) * wire::kTileBlocks;
  if (const cudaError_t error = gridFor(nBlocks, 1, &grid)) return error;
  return withInstance(launch->call, cudaErrorInvalidValue,
                      [&]<ElementType type, wire::Codec codec>() {
                        return launchGrid(kernelFor<type, codec>(*launch), grid, *launch, stream);
                      });
}

}  // namespace cinch::cuda
