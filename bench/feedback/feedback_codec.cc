// An AllReduce (average) of ranks that live in one process, with the product's codecs and error
// feedback, or a ReduceScatter whose shards are gathered as they are, behind functions that Python
// can call: bench/feedback/codec.py.

#include <algorithm>
#include <iterator>

#include "tests/unit/kernels/virtual_ranks.h"

namespace {

using namespace cinch;

// As in codec.py.
struct Settings {
  const char* codec;
  uint64_t count;
  uint32_t nRanks;
  uint32_t elementType;   // of ElementType
  uint32_t residualType;  // of ResidualType
  float gain;             // 0: no feedback
  float decay;
  uint32_t isScattered;
};

// The ranks, and what they reduce: by a ReduceScatter into `shard` values for each, the last of
// them padded, or by an AllReduce, where that is 0.
struct Reduction {
  uint64_t count, shard;
  test::VirtualRanks ranks;
};

test::Collective collectiveOf(const Settings& settings, uint64_t shard, wire::CodecFormat codec) {
  test::Collective collective;
  collective.count = shard == 0 ? settings.count : 0;
  collective.fixedShard = shard;
  collective.nRanks = settings.nRanks;
  collective.codec = codec;
  collective.type = static_cast<ElementType>(settings.elementType);
  collective.feedback = settings.gain != 0;
  collective.rule.gain = settings.gain;
  collective.rule.decay = settings.decay;
  collective.rule.residualType = static_cast<ResidualType>(settings.residualType);
  collective.factor = 1.0f / static_cast<float>(settings.nRanks);
  return collective;
}

double squaredNorm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

}  // namespace

#define CINCH_FEEDBACK_API extern "C" __attribute__((visibility("default")))

// Null where no codec has the name.
CINCH_FEEDBACK_API Reduction* cinchFeedbackCreate(const Settings* settings) {
  const codec::CodecInfo* codec = codec::findCodec(settings->codec);
  if (!codec) return nullptr;
  const uint64_t nRanks = settings->nRanks;
  const uint64_t shard = settings->isScattered != 0 ? (settings->count + nRanks - 1) / nRanks : 0;
  const test::Collective collective = collectiveOf(*settings, shard, codec->format);
  return new Reduction{settings->count, shard, {collective, host::fastestHostCodec()}};
}

CINCH_FEEDBACK_API void cinchFeedbackDestroy(Reduction* reduction) {
  delete reduction;
}

// `gradients`: one row of `count` values per rank. `average` receives what all ranks receive.
CINCH_FEEDBACK_API void cinchFeedbackReduce(Reduction* reduction, const float* gradients,
                                            float* average) {
  test::VirtualRanks& ranks = reduction->ranks;
  for (size_t rank = 0; rank < ranks.size(); ++rank, gradients += reduction->count) {
    std::vector<float> row(gradients, gradients + reduction->count);
    row.resize(std::max(reduction->count, reduction->shard * ranks.size()));
    ranks.setInput(rank, row);
  }
  if (reduction->shard == 0) {
    ranks.run();
    std::ranges::copy(ranks.outputOf(0), average);
    return;
  }
  ranks.runReduceScatter();
  std::vector<float> all;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    std::ranges::copy(ranks.outputOf(rank), std::back_inserter(all));
  std::copy_n(all.begin(), reduction->count, average);
}

// The ranks' mean of |e|^2, of stage 1.
CINCH_FEEDBACK_API double cinchFeedbackResidual(const Reduction* reduction) {
  const test::VirtualRanks& ranks = reduction->ranks;
  double sum = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) sum += squaredNorm(ranks.residualOf(rank));
  return sum / static_cast<double>(ranks.size());
}

// What all shards of one copy take on the wire.
CINCH_FEEDBACK_API uint64_t cinchFeedbackBytes(const Reduction* reduction) {
  return reduction->ranks.layout().totalBytes();
}
