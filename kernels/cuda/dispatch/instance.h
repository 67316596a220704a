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

// Returns kernelOf.operator()<C>() of the codec with this id where it has kernels of its own, else
// null.
template <class Kernel, class KernelOf>
Kernel frequentKernel(uint8_t codecId, const KernelOf& kernelOf) {
  return codec::withCodecOf<Kernel>(FrequentCodecs{}, codecId, nullptr, kernelOf);
}

// Returns ofType.operator()<type>() where the launch is plain, unless that is null; else `ofAny`,
// of any type and codec. Null where type or codec are not known.
template <class Kernel, class OfType>
Kernel chooseByType(const CallContext& call, bool isPlain, const OfType& ofType, Kernel ofAny) {
  if (!isKnown(call)) return nullptr;
  Kernel kernel = nullptr;
  if (isPlain && !call.layout.isMixed())
    kernel = call.type == ElementType::fp32   ? ofType.template operator()<ElementType::fp32>()
             : call.type == ElementType::fp16 ? ofType.template operator()<ElementType::fp16>()
                                              : ofType.template operator()<ElementType::bf16>();
  return kernel ? kernel : ofAny;
}

// Returns kernelOf.operator()<Elements, Codecs>(): of one type and codec where the launch is plain
// and its codec has kernels of its own, else of any. Null where type or codec are not known.
template <class Kernel, class KernelOf>
Kernel chooseKernel(const CallContext& call, bool isPlain, const KernelOf& kernelOf) {
  const auto ofType = [&]<ElementType type>() {
    return frequentKernel<Kernel>(call.layout.codec.id, [&]<class C>() {
      return kernelOf.template operator()<Elements<type>, OneCodec<C>>();
    });
  };
  return chooseByType(call, isPlain, ofType, kernelOf.template operator()<AnyElements, AnyCodec>());
}

}  // namespace cinch::cuda
