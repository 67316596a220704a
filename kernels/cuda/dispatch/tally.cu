#include "kernels/cuda/agent/tally_agent.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/kernels.h"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

template <class Elements, bool hasOthers>
__global__ void __launch_bounds__(kThreadsPerCta, kCtasForSums)
    tallyKernel(const __grid_constant__ TallyLaunch launch) {
  TallyAgent<Elements, hasOthers>(launch).run();
}

template <class Elements>
Kernel<TallyLaunch> kernelFor(const TallyLaunch& launch) {
  return launch.others ? tallyKernel<Elements, true> : tallyKernel<Elements, false>;
}

Kernel<TallyLaunch> kernelFor(const TallyLaunch& launch) {
  switch (launch.type) {
    case ElementType::fp32:
      return kernelFor<Elements<ElementType::fp32>>(launch);
    case ElementType::fp16:
      return kernelFor<Elements<ElementType::fp16>>(launch);
    case ElementType::bf16:
      return kernelFor<Elements<ElementType::bf16>>(launch);
  }
  return nullptr;
}

}  // namespace

void listTallyKernels(KernelList& kernels) {
  const auto addOf = [&]<ElementType type>() {
    add(kernels, tallyKernel<Elements<type>, false>);
    add(kernels, tallyKernel<Elements<type>, true>);
  };
  addOf.template operator()<ElementType::fp32>();
  addOf.template operator()<ElementType::fp16>();
  addOf.template operator()<ElementType::bf16>();
}

int launchTally(const TallyLaunch* launch, void* stream) {
  const auto kernel = kernelFor(*launch);
  if (!kernel) return cudaErrorInvalidValue;
  return launchRows(kernel, wire::ShardLayout::tilesOf(launch->count), 1, *launch, stream);
}

}  // namespace cinch::cuda
