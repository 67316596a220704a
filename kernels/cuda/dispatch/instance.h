// From a launch to the kernel that does it.
#pragma once

#include "kernels/cuda/agent/codec_choice.cuh"
#include "kernels/cuda/agent/tile_elements.cuh"

namespace cinch::cuda {

// Whether type and codec are such that this library has kernels for.
inline bool isKnown(const CallContext& call) {
  const wire::ShardLayout& layout = call.layout;
  return call.type <= ElementType::bf16 && (layout.isMixed() || codec::findCodec(layout.codec.id));
}

// Returns kernelOf.operator()<Elements, Codecs>(): of one type and codec where the launch is plain
// and its codec has kernels of its own, else of any. Null where type or codec are not known.
template <class Kernel, class KernelOf>
Kernel chooseKernel(const CallContext& call, bool isPlain, const KernelOf& kernelOf) {
  const wire::ShardLayout& layout = call.layout;
  if (!isKnown(call)) return nullptr;
  const auto ofType = [&]<ElementType type>() {
    return codec::withCodecOf<Kernel>(FrequentCodecs{}, layout.codec.id, nullptr, [&]<class C>() {
      return kernelOf.template operator()<Elements<type>, OneCodec<C>>();
    });
  };
  Kernel kernel = nullptr;
  if (isPlain && !layout.isMixed())
    kernel = call.type == ElementType::fp32   ? ofType.template operator()<ElementType::fp32>()
             : call.type == ElementType::fp16 ? ofType.template operator()<ElementType::fp16>()
                                              : ofType.template operator()<ElementType::bf16>();
  return kernel ? kernel : kernelOf.template operator()<AnyElements, AnyCodec>();
}

}  // namespace cinch::cuda
