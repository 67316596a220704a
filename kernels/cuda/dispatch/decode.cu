#include "kernels/cuda/agent/decode_agent.cuh"
#include "kernels/cuda/dispatch/codec_launch.cuh"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

template <class Elements, class Codecs>
__global__ void __launch_bounds__(kThreadsPerCta, kCtasForSums)
    decodeKernel(const __grid_constant__ DecodeLaunch launch) {
  decodeRow<Elements, Codecs>(launch);
}

__global__ void __launch_bounds__(kThreadsPerCta, kCtasForSums)
    decodeBatchKernel(const __grid_constant__ LaunchBatch<DecodeLaunch> batch) {
  decodeRow(batch);
}

struct KernelOf {
  template <class Elements, class Codecs>
  Kernel<DecodeLaunch> operator()() const {
    return decodeKernel<Elements, Codecs>;
  }
};

}  // namespace

void listDecodeKernels(KernelList& kernels) {
  forEachOfOne<AllReduceCodecs>(
      [&]<class Elements, class Codecs>() { add(kernels, decodeKernel<Elements, Codecs>); });
  add(kernels, decodeBatchKernel);
}

int launchDecode(const DecodeLaunch* launches, uint32_t n, void* stream) {
  return launchAll(std::span(launches, n), decodeBatchKernel, stream, KernelOf());
}

}  // namespace cinch::cuda
