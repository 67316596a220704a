#include "tests/unit/kernels/cuda/simt.h"
// The device language first, then what is written in it.
#include "kernels/cuda/agent/decode_agent.cuh"
#include "kernels/cuda/agent/encode_agent.cuh"
#include "kernels/cuda/agent/probe_agent.cuh"
#include "kernels/cuda/agent/reduce_agent.cuh"
#include "kernels/cuda/agent/sum_agent.cuh"
#include "kernels/cuda/agent/tally_agent.cuh"
#include "kernels/cuda/dispatch/instance.h"
#include "tests/unit/kernels/bystander.h"
#include "tests/unit/kernels/cuda/simt_codec.h"
#include "tests/unit/kernels/twin.h"

namespace cinch::test {
namespace {

using cuda::Kept;

// Fewer CTAs than there is work for, so that warps walk more than one tile.
constexpr uint32_t kCtasPerRow = 2;

template <class Launch>
using Kernel = void (*)(const Launch&);

template <class Launch>
void runGrid(Kernel<Launch> kernel, const Launch& launch, uint32_t nRows) {
  if (!kernel) simt::fail("unknown type or codec");
  simt::run({{kCtasPerRow, nRows, 1}, cuda::kThreadsPerCta}, [&] { kernel(launch); });
}

template <class Elements, class Codecs, Kept kept>
void encodeKernel(const EncodeLaunch& launch) {
  cuda::encodeRow<Elements, Codecs, kept>(launch);
}

template <class Elements, class Codecs>
void reduceKernel(const ReduceLaunch& launch) {
  if (launch.ownCodes)
    cuda::ReduceIntoValuesAgent<Elements, Codecs, cuda::Parts::ofTwoCodes>(launch).run();
  else if (launch.values)
    cuda::ReduceIntoValuesAgent<Elements, Codecs, cuda::Parts::ofRanks>(launch).run();
  else
    cuda::ReduceAgent<Elements, Codecs>(launch).run();
}

template <class Elements, class Codecs>
void decodeKernel(const DecodeLaunch& launch) {
  cuda::decodeRow<Elements, Codecs>(launch);
}

void encodeShards(const EncodeLaunch& launch) {
  const Kept kept = cuda::keptBy(launch);
  if (kept == Kept::residual && cuda::isAdaptive(launch.call.layout))
    return runGrid(
        cuda::kernelOfType(launch.call,
                           []<class Elements>() -> Kernel<EncodeLaunch> {
                             return encodeKernel<Elements, cuda::AdaptiveCodec, Kept::residual>;
                           }),
        launch, cuda::rowsOf(launch));
  const auto kernel = cuda::chooseKernel<Kernel<EncodeLaunch>>(
      launch.call, kept != Kept::anything,
      [&]<class Elements, class Codecs>() -> Kernel<EncodeLaunch> {
        if constexpr (!Codecs::kIsFixed)
          return encodeKernel<Elements, Codecs, Kept::anything>;
        else if (kept == Kept::codes)
          return encodeKernel<Elements, Codecs, Kept::codes>;
        else
          return encodeKernel<Elements, Codecs, Kept::residual>;
      });
  runGrid(kernel, launch, cuda::rowsOf(launch));
}

void reduceShard(const ReduceLaunch& launch) {
  runGrid(cuda::chooseKernel<Kernel<ReduceLaunch>>(
              launch.call, cuda::isPlain(launch),
              []<class Elements, class Codecs>() -> Kernel<ReduceLaunch> {
                return reduceKernel<Elements, Codecs>;
              }),
          launch, 1);
}

void decodeShards(const DecodeLaunch& launch) {
  runGrid(cuda::chooseKernel<Kernel<DecodeLaunch>>(
              launch.call, true,
              []<class Elements, class Codecs>() -> Kernel<DecodeLaunch> {
                return decodeKernel<Elements, Codecs>;
              }),
          launch, cuda::rowsOf(launch));
}

template <ElementType type>
void tallyAs(const TallyLaunch& launch) {
  using Elements = cuda::Elements<type>;
  const Kernel<TallyLaunch> with = [](const TallyLaunch& each) {
    cuda::TallyAgent<Elements, true>(each).run();
  };
  const Kernel<TallyLaunch> alone = [](const TallyLaunch& each) {
    cuda::TallyAgent<Elements, false>(each).run();
  };
  runGrid(launch.others ? with : alone, launch, 1);
}

void tallyTiles(const TallyLaunch& launch) {
  cuda::withType(launch.type, [&]<ElementType type>() { tallyAs<type>(launch); });
}

void probeInput(const ProbeLaunch& launch) {
  cuda::withType(launch.call.type, [&]<ElementType type>() {
    const Kernel<ProbeLaunch> kernel = [](const ProbeLaunch& each) {
      cuda::ProbeAgent<type>(each).run();
    };
    runGrid(kernel, launch, 1);
  });
}

template <ElementType type>
void sumAs(const SumLaunch& launch) {
  const Kernel<SumLaunch> kernel = [](const SumLaunch& each) { cuda::SumAgent<type>(each).run(); };
  runGrid(kernel, launch, 1);
}

void sumParts(const SumLaunch& launch) {
  cuda::withType(launch.type, [&]<ElementType type>() { sumAs<type>(launch); });
}

template <class Launch, class Row>
void runAmongOthers(const Launch& launch, const Row& row) {
  static Bystander before, behind;
  before = behind = {};
  cuda::LaunchBatch<Launch> batch;
  setLaunch(&before, batch.launches[0]);
  batch.launches[1] = launch;
  setLaunch(&behind, batch.launches[2]);
  Twin<Launch> twin(launch);
  if (twin.isThere()) batch.launches[3] = twin.launch();
  const uint32_t nLaunches = twin.isThere() ? 4 : 3;
  const uint32_t nRows = std::max(cuda::rowsOf(launch), cuda::rowsOf(batch.launches[0]));
  simt::run({{kCtasPerRow, nRows, nLaunches}, cuda::kThreadsPerCta}, [&] { row(batch); });
  if (!isDone(before, launch) || !isDone(behind, launch)) simt::fail("a call beside is not done");
  if (twin.isThere() && !twin.isAlike()) simt::fail("the same call beside it has left other bytes");
}

void encodeAmongOthers(const EncodeLaunch& launch) {
  runAmongOthers(launch, [](const auto& batch) { cuda::encodeRow(batch); });
}
void reduceAmongOthers(const ReduceLaunch& launch) {
  runAmongOthers(launch, [](const auto& batch) { cuda::reduceShard(batch); });
}
void decodeAmongOthers(const DecodeLaunch& launch) {
  runAmongOthers(launch, [](const auto& batch) { cuda::decodeRow(batch); });
}

}  // namespace

const host::HostCodec kSimtCodec = {"simt",     encodeShards, reduceShard, decodeShards,
                                    probeInput, tallyTiles,   sumParts};
const host::HostCodec kSimtBatchCodec = {"simt batch",      encodeAmongOthers, reduceAmongOthers,
                                         decodeAmongOthers, probeInput,        tallyTiles,
                                         sumParts};

}  // namespace cinch::test
