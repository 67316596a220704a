#include "tests/unit/kernels/cuda/simt.h"
// The device language first, then what is written in it.
#include "kernels/cuda/agent/decode_agent.cuh"
#include "kernels/cuda/agent/encode_agent.cuh"
#include "kernels/cuda/agent/reduce_agent.cuh"
#include "kernels/cuda/dispatch/instance.h"
#include "tests/unit/kernels/cuda/simt_codec.h"

namespace cinch::test {
namespace {

using cuda::Kept;

// Fewer CTAs than there is work for, so that half warps walk more than one block.
constexpr uint32_t kCtasPerRow = 2;

template <class Launch, class Agent>
void runGrid(const Launch& launch, uint32_t nRows, const Agent& agent) {
  const simt::Dim dim{{kCtasPerRow, nRows}, cuda::kThreadsPerCta};
  const bool known =
      cuda::withInstance(launch.call, false, [&]<ElementType type, wire::Codec codec>() {
        simt::run(dim, [&] { agent.template operator()<type, codec>(); });
        return true;
      });
  if (!known) simt::fail("unknown type or codec");
}

void encodeShards(const EncodeLaunch& launch) {
  runGrid(launch, launch.call.layout.nShards, [&]<ElementType type, wire::Codec codec>() {
    if (static_cast<int64_t>(blockIdx.y) == launch.skipShard) return;
    switch (cuda::keptBy(launch)) {
      case Kept::codes:
        return cuda::EncodeAgent<type, codec, Kept::codes>(launch, blockIdx.y).run();
      case Kept::residual:
        return cuda::EncodeAgent<type, codec, Kept::residual>(launch, blockIdx.y).run();
      case Kept::statistics:
        return cuda::EncodeAgent<type, codec, Kept::statistics>(launch, blockIdx.y).run();
    }
  });
}

void reduceShard(const ReduceLaunch& launch) {
  runGrid(launch, 1, [&]<ElementType type, wire::Codec codec>() {
    if (launch.values)
      cuda::ReduceIntoValuesAgent<type, codec>(launch).run();
    else if (cuda::keptBy(launch) == Kept::statistics)
      cuda::ReduceAgent<type, codec, Kept::statistics>(launch).run();
    else
      cuda::ReduceAgent<type, codec, Kept::residual>(launch).run();
  });
}

void decodeShards(const DecodeLaunch& launch) {
  runGrid(launch, launch.call.layout.nShards, [&]<ElementType type, wire::Codec codec>() {
    cuda::DecodeAgent<type, codec>(launch, blockIdx.y).run();
  });
}

}  // namespace

const host::HostCodec kSimtCodec = {"simt", encodeShards, reduceShard, decodeShards};

}  // namespace cinch::test
