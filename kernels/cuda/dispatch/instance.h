// From a launch to the kernel that does it.
#pragma once

#include <type_traits>

#include "kernels/cuda/agent/decode_agent.cuh"
#include "kernels/cuda/agent/encode_agent.cuh"
#include "kernels/cuda/agent/reduce_agent.cuh"

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

// Returns kernelOf.operator()<Elements, Codecs>() of one type and a codec of the list; null where
// tiles have several codecs, or one that is not there.
template <class Kernel, class List, class KernelOf>
Kernel kernelOfOne(const CallContext& call, const KernelOf& kernelOf) {
  if (call.layout.isMixed()) return nullptr;
  return kernelOfType(call, [&]<class Elements>() {
    return codec::withCodecOf<Kernel>(List{}, call.layout.codec.id, nullptr, [&]<class C>() {
      return kernelOf.template operator()<Elements, OneCodec<C>>();
    });
  });
}

// Whether all pieces of a mixed layout have codecs of adaptive precision.
inline bool isAdaptive(const wire::ShardLayout& layout) {
  return layout.isMixed() && (layout.mixedCodecs & ~bitsOf(AdaptiveCodecs{})) == 0;
}

// Calls visit.operator()<Elements>() for all types.
template <class Visit>
void forEachType(const Visit& visit) {
  visit.template operator()<Elements<ElementType::fp32>>();
  visit.template operator()<Elements<ElementType::fp16>>();
  visit.template operator()<Elements<ElementType::bf16>>();
}

// Calls visit.operator()<Elements, Codecs>() for all types and the codecs of the list.
template <class List, class Visit>
void forEachOfOne(const Visit& visit) {
  const auto ofType = [&]<class Elements, class... C>(codec::CodecList<C...>) {
    (visit.template operator()<Elements, OneCodec<C>>(), ...);
  };
  forEachType([&]<class Elements>() { ofType.template operator()<Elements>(List{}); });
}

// The codecs that have kernels of their own, by what is done.
template <Kept kept>
using EncodedCodecs = std::conditional_t<kept == Kept::codes, PlainCodecs, FeedbackCodecs>;
template <ReduceEnd end>
using ReducedCodecs =
    std::conditional_t<end == ReduceEnd::values, ReduceScatterCodecs, AllReduceCodecs>;

// kernelOf.operator()<Elements, Codecs, kept>() of a launch that has a kernel of its own, else
// null.
template <class Kernel, Kept kept, class KernelOf>
Kernel encodeKernelKeeping(const CallContext& call, const KernelOf& kernelOf) {
  if constexpr (kept != Kept::codes)
    if (isAdaptive(call.layout))
      return kernelOfType(call, [&]<class Elements>() -> Kernel {
        return kernelOf.template operator()<Elements, AdaptiveCodec, kept>();
      });
  return kernelOfOne<Kernel, EncodedCodecs<kept>>(call, [&]<class Elements, class Codecs>() {
    return kernelOf.template operator()<Elements, Codecs, kept>();
  });
}
template <class Kernel, class KernelOf>
Kernel ownKernel(const EncodeLaunch& launch, const KernelOf& kernelOf) {
  switch (keptBy(launch)) {
    case Kept::codes:
      return encodeKernelKeeping<Kernel, Kept::codes>(launch.call, kernelOf);
    case Kept::int8Residual:
      return encodeKernelKeeping<Kernel, Kept::int8Residual>(launch.call, kernelOf);
    default:
      return nullptr;
  }
}

// The same of a reduce, of kernelOf.operator()<Elements, Codecs, end>(), and of a decode.
template <class Kernel, class KernelOf>
Kernel ownKernel(const ReduceLaunch& launch, const KernelOf& kernelOf) {
  if (!isPlain(launch)) return nullptr;
  const auto ofEnd = [&]<ReduceEnd end>() {
    return kernelOfOne<Kernel, ReducedCodecs<end>>(
        launch.call, [&]<class Elements, class Codecs>() {
          return kernelOf.template operator()<Elements, Codecs, end>();
        });
  };
  switch (endOf(launch)) {
    case ReduceEnd::codes:
      return ofEnd.template operator()<ReduceEnd::codes>();
    case ReduceEnd::values:
      return ofEnd.template operator()<ReduceEnd::values>();
    default:
      return ofEnd.template operator()<ReduceEnd::valuesOfTwo>();
  }
}
template <class Kernel, class KernelOf>
Kernel ownKernel(const DecodeLaunch& launch, const KernelOf& kernelOf) {
  return kernelOfOne<Kernel, AllReduceCodecs>(launch.call, kernelOf);
}

}  // namespace cinch::cuda
