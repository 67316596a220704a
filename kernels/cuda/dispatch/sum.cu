#include "kernels/cuda/agent/sum_agent.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/kernels.h"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

template <ElementType type>
__global__ void __launch_bounds__(kThreadsPerCta, kCtasForSums)
    sumKernel(const __grid_constant__ SumLaunch launch) {
  SumAgent<type>(launch).run();
}

Kernel<SumLaunch> kernelFor(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      return sumKernel<ElementType::fp32>;
    case ElementType::fp16:
      return sumKernel<ElementType::fp16>;
    case ElementType::bf16:
      return sumKernel<ElementType::bf16>;
  }
  return nullptr;
}

}  // namespace

void listSumKernels(KernelList& kernels) {
  for (const ElementType type : {ElementType::fp32, ElementType::fp16, ElementType::bf16})
    add(kernels, kernelFor(type));
}

int launchSum(const SumLaunch* launch, void* stream) {
  const auto kernel = kernelFor(launch->type);
  if (!kernel) return cudaErrorInvalidValue;
  return launchRows(kernel, wire::ShardLayout::tilesOf(launch->count), 1, *launch, stream);
}

}  // namespace cinch::cuda
