// Jobs that reduce what is no gradient: alone, or beside gradients which may be compressed.
//
// Where no thread says who reduces, a whole model in calls of two signatures is sufficient but for
// the values. So some is left out there, since nothing tells it from gradients: what is as large as
// all that was broadcast, comes in calls of several sizes, and whose values are new in each step
// (activations of unequal layers, vectors of several systems).
#include <algorithm>
#include <functional>

#include "tests/identity/stream.h"

namespace cinch::identity {
namespace {

struct Part {
  uint64_t count;
  Content content;
};
using Parts = std::vector<Part>;

Parts drawParts(Stream& stream, int least, int most, const std::function<Nature()>& nature) {
  Parts parts;
  for (int n = stream.random.intBetween(least, most); n > 0; --n)
    parts.push_back({stream.largeCount(), stream.content(nature())});
  if (parts.size() > 1 && stream.random.oneIn(3)) parts.back().count = parts.front().count;
  return parts;
}

uint64_t total(const Parts& parts) {
  uint64_t sum = 0;
  for (const Part& part : parts) sum += part.count;
  return sum;
}

// DDP beside which the rest is reduced, where the process has any. It is known unless a call from
// elsewhere has the signature of a bucket.
class Beside {
 public:
  explicit Beside(Stream& stream)
      : stream_(stream),
        buckets_(drawParts(stream, 1, 4, [&stream] { return gradients(stream.random); })) {}

  Parts& buckets() { return buckets_; }
  void broadcast() { stream_.broadcast(total(buckets_)); }
  void reduce() {
    for (Part& bucket : buckets_) stream_.gradients(bucket.count, bucket.content, Caller::autograd);
  }

 private:
  Stream& stream_;
  Parts buckets_;
};

// Reduces `parts` every so many steps, alone or after the gradients of a step.
void reduceEvery(Stream& stream, Parts& parts, int every, bool isAlone) {
  Beside ddp(stream);
  if (!isAlone) ddp.broadcast();
  for (; stream.step() < 12 * every; stream.nextStep()) {
    if (!isAlone) ddp.reduce();
    if (stream.step() % every != every - 1) continue;
    for (Part& part : parts) stream.others(part.count, part.content);
  }
}

int drawPeriod(Stream& stream) {
  return stream.random.oneIn(2) ? 1 : stream.random.intBetween(2, 4);
}

// Flat, or each tensor by itself; of the model that was broadcast, by chance as large as gradients.
void averagedWeights(Stream& stream) {
  Parts tensors = drawParts(stream, 1, 8, [&stream] { return weights(stream.random); });
  const bool isAlone = !stream.hasAutograd || stream.random.oneIn(3);
  stream.broadcast(total(tensors));
  reduceEvery(stream, tensors, drawPeriod(stream), isAlone);
}

// In hooks of the backward pass, as each layer's optimizer has made its step: only values can tell.
void weightsInBackward(Stream& stream) {
  Parts tensors = drawParts(stream, 1, 8, [&stream] { return weights(stream.random); });
  stream.broadcast(total(tensors));
  for (; stream.step() < 12; stream.nextStep())
    for (Part& tensor : tensors) stream.others(tensor.count, tensor.content, stream.backward());
}

// PostLocalSGD: the weights go by the calls by which gradients went before.
void postLocal(Stream& stream) {
  if (!stream.hasAutograd) return averagedWeights(stream);
  Beside ddp(stream);
  ddp.broadcast();
  const int nSteps = stream.random.intBetween(3, 14);
  stream.expect(kKnown);
  for (; stream.step() < nSteps; stream.nextStep()) ddp.reduce();
  Parts averages;
  for (const Part& bucket : ddp.buckets())
    averages.push_back({bucket.count, stream.content(weights(stream.random))});
  for (int i = 0; i < 12; ++i, stream.nextStep())
    for (Part& part : averages) stream.others(part.count, part.content);
}

// Averages of an optimizer's second moments, of an EMA, of running statistics; sums of k-means.
void averagedState(Stream& stream) {
  Parts parts = drawParts(stream, 1, 6, [&stream] { return slowState(stream.random); });
  const bool isAlone = !stream.hasAutograd || stream.random.oneIn(3);
  stream.broadcast(total(parts));
  reduceEvery(stream, parts, drawPeriod(stream), isAlone);
}

// An optimizer's momentum, which is new after some steps.
void averagedMomentum(Stream& stream) {
  const auto momentum = [] { return Nature{.kept = 0.9f, .mean = 0.1f, .noise = 0.1f}; };
  Parts parts = drawParts(stream, 1, 6, momentum);
  stream.broadcast(total(parts));
  if (stream.hasAutograd) stream.reduceElsewhere();
  reduceEvery(stream, parts, drawPeriod(stream), !stream.hasAutograd || stream.random.oneIn(2));
}

// Fisher information, second moments, |g|: in hooks of the backward pass or in a loop.
void sumsOfSquares(Stream& stream) {
  Parts parts = drawParts(stream, 1, 8, [&stream] { return squares(stream.random); });
  stream.broadcast(total(parts));
  for (; stream.step() < 20; stream.nextStep())
    for (Part& part : parts) stream.others(part.count, part.content, stream.backward());
}

// A trunk on all ranks, whose features are made equal, and heads that are split: the features'
// gradients are summed up.
void splitHeads(Stream& stream) {
  Parts features = drawParts(stream, 1, 3, [] { return activations(); });
  for (; stream.step() < 20; stream.nextStep()) {
    for (const Part& part : features) stream.broadcast(part.count);
    for (Part& part : features) stream.others(part.count, part.content, stream.backward());
  }
}

void kMeans(Stream& stream) {
  Part sums{stream.largeCount(), stream.content({.noise = 0.02f})};
  Part numbers{stream.random.between(100, 100000), stream.content(counts(stream.random))};
  stream.broadcast(sums.count);
  for (; stream.step() < 12; stream.nextStep()) {
    stream.others(sums.count, sums.content);
    stream.others(numbers.count, numbers.content);
  }
}

// Power iteration, CG: one vector over and over, which was broadcast.
void iterations(Stream& stream) {
  const bool converges = stream.random.oneIn(2);
  Part vector{stream.largeCount(),
              stream.content(converges ? slowState(stream.random) : activations())};
  stream.broadcast(vector.count);
  for (; stream.step() < 12; stream.nextStep()) stream.others(vector.count, vector.content);
}

// Tensor parallelism: activations in the forward pass, their gradients in the backward pass.
void tensorParallel(Stream& stream) {
  const int nLayers = stream.random.intBetween(1, 12);
  const uint64_t count = stream.largeCount();
  Content values = stream.content(activations());
  const uint64_t perStep = count * static_cast<uint64_t>(2 * nLayers);
  if (stream.random.oneIn(2)) stream.broadcast(stream.random.oneIn(2) ? perStep : perStep / 2);
  if (stream.hasAutograd) stream.reduceElsewhere();
  for (; stream.step() < 400 / nLayers; stream.nextStep())
    for (int i = 0; i < 2 * nLayers; ++i)
      stream.others(count, values, i < nLayers ? Caller::other : stream.backward());
}

// Columns alone: nothing is summed in the forward pass, but its outputs may be gathered, or its
// inputs, whose gradients are scattered then.
void columnParallel(Stream& stream) {
  const int nLayers = stream.random.intBetween(2, 12);
  const uint64_t count = stream.largeCount();
  Content values = stream.content(activations());
  const bool gathers = stream.random.oneIn(2);
  const bool scatters = gathers && stream.op == OpClass::sum && stream.random.oneIn(2);
  const uint64_t shard = count / static_cast<uint64_t>(stream.nRanks) + 1;
  Content gathered = stream.content(activations());
  if (stream.random.oneIn(2)) stream.broadcast(count * static_cast<uint64_t>(nLayers));
  if (stream.hasAutograd) stream.reduceElsewhere();
  for (; stream.step() < 400 / nLayers; stream.nextStep()) {
    for (int i = 0; i < nLayers && gathers; ++i) stream.gather(shard, Caller::other, &gathered);
    for (int i = 0; i < nLayers; ++i)
      stream.others(scatters ? shard : count, values, stream.backward(),
                    scatters ? CallKind::reduceScatter : CallKind::allReduce);
  }
}

// Sequence parallelism: each layer gathers and scatters in both passes.
void sequenceParallel(Stream& stream) {
  const int nLayers = stream.random.intBetween(1, 8);
  const uint64_t count = stream.largeCount();
  Content values = stream.content(activations()), gathered = stream.content(activations());
  if (stream.op == OpClass::avg) return tensorParallel(stream);  // activations are never averaged
  if (stream.hasAutograd) stream.reduceElsewhere();
  for (; stream.step() < 300 / nLayers; stream.nextStep())
    for (int i = 0; i < 2 * nLayers; ++i) {
      const Caller caller = i < nLayers ? Caller::other : stream.backward();
      stream.gather(count, caller, &gathered);
      stream.others(count, values, caller, CallKind::reduceScatter);
    }
}

// Counts of tokens per expert, histograms: by chance of the size of what was broadcast.
void countsAlone(Stream& stream) {
  Parts parts = drawParts(stream, 1, 4, [&stream] { return counts(stream.random); });
  stream.broadcast(total(parts));
  const bool isAlone = !stream.hasAutograd || stream.random.oneIn(3);
  reduceEvery(stream, parts, drawPeriod(stream), isAlone);
}

// Each rank works out some of the updates, as Muon does, and sums hand them out.
void gatheredBySums(Stream& stream) {
  Parts parts = drawParts(stream, 1, 6, [] { return gatheredParts(); });
  stream.broadcast(total(parts));
  const bool isAlone = !stream.hasAutograd || stream.random.oneIn(2);
  reduceEvery(stream, parts, 1, isAlone);
}

// Stages hand on activations, and gather them now and then.
void pipelineStages(Stream& stream) {
  const int nMicroBatches = stream.random.intBetween(1, 8);
  const uint64_t count = stream.largeCount();
  Content losses = stream.content(activations());
  if (stream.hasAutograd) stream.reduceElsewhere();
  for (; stream.step() < 30; stream.nextStep()) {
    for (int i = 0; i < nMicroBatches; ++i) stream.broadcast(count);
    stream.gather(count, Caller::other, &losses);
    stream.others(count, losses, Caller::other, CallKind::reduce);
    if (stream.random.oneIn(4)) stream.others(count, losses);
  }
}

}  // namespace

const std::vector<Kind> kOtherKinds = {{"averaged weights", averagedWeights},
                                       {"weights in backward", weightsInBackward},
                                       {"PostLocalSGD", postLocal},
                                       {"averaged state", averagedState},
                                       {"averaged momentum", averagedMomentum},
                                       {"squares", sumsOfSquares},
                                       {"split heads", splitHeads},
                                       {"k-means", kMeans},
                                       {"iterations", iterations},
                                       {"tensor parallel", tensorParallel},
                                       {"column parallel", columnParallel},
                                       {"sequence parallel", sequenceParallel},
                                       {"counts", countsAlone},
                                       {"gathered by sums", gatheredBySums},
                                       {"pipeline", pipelineStages}};

}  // namespace cinch::identity
