#include "kernels/cuda/agent/reduce_agent.cuh"
#include "kernels/cuda/dispatch/batch_kernels.cuh"
#include "kernels/cuda/dispatch/codec_launch.cuh"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

template <class Elements, class Codecs>
__global__ void __launch_bounds__(kThreadsPerCta, kCtasForReduce<Codecs>)
    reduceKernel(const __grid_constant__ ReduceLaunch launch) {
  ReduceAgent<Elements, Codecs>(launch).run();
}

template <class Elements, class Codecs, Parts parts>
__global__ void __launch_bounds__(kThreadsPerCta, kCtasForReduce<Codecs>)
    reduceIntoValuesKernel(const __grid_constant__ ReduceLaunch launch) {
  ReduceIntoValuesAgent<Elements, Codecs, parts>(launch).run();
}

struct KernelOf {
  template <class Elements, class Codecs, ReduceEnd end>
  Kernel<ReduceLaunch> operator()() const {
    constexpr Parts kParts = end == ReduceEnd::values ? Parts::ofRanks : Parts::ofTwoCodes;
    if constexpr (end == ReduceEnd::codes)
      return reduceKernel<Elements, Codecs>;
    else
      return reduceIntoValuesKernel<Elements, Codecs, kParts>;
  }
};

template <ReduceEnd end>
void addKernels(KernelList& kernels) {
  forEachOfOne<ReducedCodecs<end>>([&]<class Elements, class Codecs>() {
    add(kernels, KernelOf().operator()<Elements, Codecs, end>());
  });
}

}  // namespace

void listReduceKernels(KernelList& kernels) {
  addKernels<ReduceEnd::codes>(kernels);
  addKernels<ReduceEnd::values>(kernels);
  addKernels<ReduceEnd::valuesOfTwo>(kernels);
  add(kernels, reduceBatchKernel);
}

int launchReduce(const ReduceLaunch* launches, uint32_t n, void* stream) {
  return launchAll(std::span(launches, n), reduceBatchKernel, stream, KernelOf());
}

}  // namespace cinch::cuda
