// From the element type and codec of a call to template arguments.
#pragma once

#include "kernels/device_table.h"

namespace cinch::cuda {

template <ElementType type, class Result, class Call>
Result withCodec(wire::Codec codec, Result unknown, const Call& call) {
  using wire::Codec;
  switch (codec) {
    case Codec::q2:
      return call.template operator()<type, Codec::q2>();
    case Codec::q4:
      return call.template operator()<type, Codec::q4>();
    case Codec::q8:
      return call.template operator()<type, Codec::q8>();
  }
  return unknown;
}

// Returns call.operator()<type, codec>() for the type and codec of `context`, or `unknown` where
// either is none that this library knows.
template <class Result, class Call>
Result withInstance(const CallContext& context, Result unknown, const Call& call) {
  const wire::Codec codec = context.layout.codec;
  switch (context.type) {
    case ElementType::fp32:
      return withCodec<ElementType::fp32>(codec, unknown, call);
    case ElementType::fp16:
      return withCodec<ElementType::fp16>(codec, unknown, call);
    case ElementType::bf16:
      return withCodec<ElementType::bf16>(codec, unknown, call);
  }
  return unknown;
}

}  // namespace cinch::cuda
