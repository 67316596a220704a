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

// Returns kernelOf.operator()<Elements>() of the call's type.
template <class KernelOf>
auto kernelOfType(const CallContext& call, const KernelOf& kernelOf) {
  return call.type == ElementType::fp32
             ? kernelOf.template operator()<Elements<ElementType::fp32>>()
         : call.type == ElementType::fp16
             ? kernelOf.template operator()<Elements<ElementType::fp16>>()
             : kernelOf.template operator()<Elements<ElementType::bf16>>();
}

// Returns kernelOf.operator()<Elements, Codecs>() of one type and codec; null where tiles have
// several codecs, or one without kernels of its own.
template <class Kernel, class KernelOf>
Kernel plainKernel(const CallContext& call, const KernelOf& kernelOf) {
  if (call.layout.isMixed()) return nullptr;
  return kernelOfType(call, [&]<class Elements>() {
    return codec::withCodecOf<Kernel>(
        FrequentCodecs{}, call.layout.codec.id, nullptr,
        [&]<class C>() { return kernelOf.template operator()<Elements, OneCodec<C>>(); });
  });
}

// Whether all pieces of a mixed layout have codecs of adaptive precision.
inline bool isAdaptive(const wire::ShardLayout& layout) {
  return layout.isMixed() && (layout.mixedCodecs & ~bitsOf(AdaptiveCodecs{})) == 0;
}

// Calls visit.operator()<Elements, Codecs>() for all types and codecs with kernels of their own.
template <class Visit>
void forEachPlainInstance(const Visit& visit) {
  const auto ofType = [&]<ElementType type, class... C>(codec::CodecList<C...>) {
    (visit.template operator()<Elements<type>, OneCodec<C>>(), ...);
  };
  ofType.template operator()<ElementType::fp32>(FrequentCodecs{});
  ofType.template operator()<ElementType::fp16>(FrequentCodecs{});
  ofType.template operator()<ElementType::bf16>(FrequentCodecs{});
}

// plainKernel() where the launch is plain and there is such a kernel, else that of any type and
// codec. Null where type or codec are not known.
template <class Kernel, class KernelOf>
Kernel chooseKernel(const CallContext& call, bool isPlain, const KernelOf& kernelOf) {
  if (!isKnown(call)) return nullptr;
  Kernel kernel = isPlain ? plainKernel<Kernel>(call, kernelOf) : nullptr;
  return kernel ? kernel : kernelOf.template operator()<AnyElements, AnyCodec>();
}

}  // namespace cinch::cuda
