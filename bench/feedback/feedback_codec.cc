// An AllReduce (average) of ranks that live in one process, with the product's codecs and error
// feedback, or a ReduceScatter whose shards are gathered as they are, behind functions that Python
// can call: bench/feedback/codec.py.

#include <algorithm>

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

// The ranks, and what they reduce: a ReduceScatter has as many values for each.
struct Reduction {
  uint64_t count;
  bool isScattered;
  test::VirtualRanks ranks;

  uint64_t padded() const { return isScattered ? shard() * ranks.size() : count; }
  uint64_t shard() const { return (count + ranks.size() - 1) / ranks.size(); }
};

test::Collective collectiveOf(const Settings& settings, wire::CodecFormat codec) {
  test::Collective collective;
  if (settings.isScattered)
    collective.fixedShard = (settings.count + settings.nRanks - 1) / settings.nRanks;
  else
    collective.count = settings.count;
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
  return new Reduction{
      settings->count,
      settings->isScattered != 0,
      {collectiveOf(*settings, codec->format), host::fastestHostCodec()},
  };
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
    row.resize(reduction->padded());
    ranks.setInput(rank, row);
  }
  if (!reduction->isScattered) {
    ranks.run();
    std::ranges::copy(ranks.outputOf(0), average);
    return;
  }
  ranks.runReduceScatter();
  for (uint64_t rank = 0, first = 0; rank < ranks.size(); ++rank, first += reduction->shard()) {
    std::vector<float> shard = ranks.outputOf(rank);
    shard.resize(std::min(reduction->count - std::min(first, reduction->count), shard.size()));
    std::ranges::copy(shard, average + first);
  }
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
