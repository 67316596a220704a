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

using cuda::Kept, cuda::ReduceEnd;

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

template <class Elements, class Codecs, cuda::ReduceEnd end>
void reduceKernel(const ReduceLaunch& launch) {
  using cuda::Parts;
  constexpr Parts kParts = end == ReduceEnd::values ? Parts::ofRanks : Parts::ofTwoCodes;
  if constexpr (end == ReduceEnd::codes)
    cuda::ReduceAgent<Elements, Codecs>(launch).run();
  else
    cuda::ReduceIntoValuesAgent<Elements, Codecs, kParts>(launch).run();
}

template <class Elements, class Codecs>
void decodeKernel(const DecodeLaunch& launch) {
  cuda::decodeRow<Elements, Codecs>(launch);
}

// By its own kernel, or by the one for anything.
template <class Launch, class KernelOf, class Row>
void runLaunch(const Launch& launch, const KernelOf& kernelOf, const Row& any) {
  const uint32_t nRows = cuda::rowsOf(launch);
  if (!cuda::isKnown(launch.call)) simt::fail("unknown type or codec");
  if (const auto own = cuda::ownKernel<Kernel<Launch>>(launch, kernelOf))
    return runGrid(own, launch, nRows);
  cuda::LaunchBatch<Launch> alone;
  alone.launches[0] = launch;
  simt::run({{kCtasPerRow, nRows, 1}, cuda::kThreadsPerCta}, [&] { any(alone); });
}

void encodeShards(const EncodeLaunch& launch) {
  runLaunch(
      launch,
      []<class Elements, class Codecs, Kept kept>() -> Kernel<EncodeLaunch> {
        return encodeKernel<Elements, Codecs, kept>;
      },
      [](const auto& batch) { cuda::encodeRow(batch); });
}

void reduceShard(const ReduceLaunch& launch) {
  runLaunch(
      launch,
      []<class Elements, class Codecs, ReduceEnd end>() -> Kernel<ReduceLaunch> {
        return reduceKernel<Elements, Codecs, end>;
      },
      [](const auto& batch) { cuda::reduceShard(batch); });
}

void decodeShards(const DecodeLaunch& launch) {
  runLaunch(
      launch,
      []<class Elements, class Codecs>() -> Kernel<DecodeLaunch> {
        return decodeKernel<Elements, Codecs>;
      },
      [](const auto& batch) { cuda::decodeRow(batch); });
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
