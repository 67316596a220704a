#include "kernels/cuda/agent/probe_agent.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/kernels.h"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

template <ElementType type>
__global__ void __launch_bounds__(kThreadsPerCta)
    probeKernel(const __grid_constant__ ProbeLaunch launch) {
  ProbeAgent<type>(launch).run();
}

Kernel<ProbeLaunch> kernelFor(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      return probeKernel<ElementType::fp32>;
    case ElementType::fp16:
      return probeKernel<ElementType::fp16>;
    case ElementType::bf16:
      return probeKernel<ElementType::bf16>;
  }
  return nullptr;
}

}  // namespace

void listProbeKernels(KernelList& kernels) {
  for (const ElementType type : {ElementType::fp32, ElementType::fp16, ElementType::bf16})
    add(kernels, kernelFor(type));
}

int launchProbe(const ProbeLaunch* launch, void* stream) {
  const auto kernel = kernelFor(launch->call.type);
  if (!kernel) return cudaErrorInvalidValue;
  // Never more than fit: they are few.
  const uint64_t nTiles = core::ProbedTiles(launch->call.layout.count).size();
  const auto nCtas = static_cast<uint32_t>(ctasPerRow(nTiles, 1, kMaxProbeCtas));
  return launchGrid(kernel, dim3(nCtas), kThreadsPerCta, *launch, stream);
}

}  // namespace cinch::cuda
