// An AllReduce (average) of ranks that live in one process, with the product's codecs and error
// feedback, behind functions that Python can call: bench/feedback/codec.py.

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
};

test::Collective collectiveOf(const Settings& settings, wire::CodecFormat codec) {
  test::Collective collective;
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
CINCH_FEEDBACK_API test::VirtualRanks* cinchFeedbackCreate(const Settings* settings) {
  const codec::CodecInfo* codec = codec::findCodec(settings->codec);
  if (!codec) return nullptr;
  return new test::VirtualRanks(collectiveOf(*settings, codec->format), host::fastestHostCodec());
}

CINCH_FEEDBACK_API void cinchFeedbackDestroy(test::VirtualRanks* ranks) {
  delete ranks;
}

// `gradients`: one row of `count` values per rank. `average` receives what all ranks receive.
CINCH_FEEDBACK_API void cinchFeedbackAllReduce(test::VirtualRanks* ranks, const float* gradients,
                                               float* average) {
  const uint64_t count = ranks->layout().count;
  for (size_t rank = 0; rank < ranks->size(); ++rank, gradients += count)
    ranks->setInput(rank, {gradients, gradients + count});
  ranks->run();
  const std::vector<float> output = ranks->outputOf(0);
  std::copy(output.begin(), output.end(), average);
}

// The ranks' mean of |e|^2, of stage 1.
CINCH_FEEDBACK_API double cinchFeedbackResidual(const test::VirtualRanks* ranks) {
  double sum = 0;
  for (size_t rank = 0; rank < ranks->size(); ++rank) sum += squaredNorm(ranks->residualOf(rank));
  return sum / static_cast<double>(ranks->size());
}

// What all shards of one copy take on the wire.
CINCH_FEEDBACK_API uint64_t cinchFeedbackBytes(const test::VirtualRanks* ranks) {
  return ranks->layout().totalBytes();
}
