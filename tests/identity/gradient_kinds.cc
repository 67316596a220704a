// Jobs that train: their gradients are to be found, and nothing beside them.
#include <algorithm>
#include <numeric>

#include "tests/identity/stream.h"

namespace cinch::identity {
namespace {

struct Bucket {
  uint64_t count;
  Content content;
};
using Buckets = std::vector<Bucket>;

uint64_t total(const Buckets& buckets) {
  return std::accumulate(buckets.begin(), buckets.end(), uint64_t{0},
                         [](uint64_t sum, const Bucket& bucket) { return sum + bucket.count; });
}

// Sizes by chance, some of them equal.
Buckets drawBuckets(Stream& stream, int least, int most) {
  Buckets buckets;
  const int n = stream.random.intBetween(least, most);
  const bool areSparse = stream.random.oneIn(4), areUnused = stream.random.oneIn(6);
  for (int i = 0; i < n; ++i) {
    const bool isEqual = i > 1 && stream.random.oneIn(3);
    const bool isSparse = areSparse && i == 0;
    Nature nature = isSparse ? sparseGradients(stream.random, stream.hasAutograd)
                             : gradients(stream.random, stream.hasAutograd);
    if (areUnused && i == n - 1) nature.unused = 0.1f;
    buckets.push_back(
        {isEqual ? buckets.back().count : stream.largeCount(), stream.content(nature)});
  }
  if (n > 1 && buckets[0].count == buckets[1].count) ++buckets[1].count;
  return buckets;
}

// With what is reduced in small calls, or never.
uint64_t parametersOf(Stream& stream, const Buckets& buckets) {
  return total(buckets) + static_cast<uint64_t>(stream.random.uniform(0, 0.01) *
                                                static_cast<double>(total(buckets)));
}

void reduceAll(Stream& stream, Buckets& buckets) {
  for (Bucket& bucket : buckets) stream.gradients(bucket.count, bucket.content, stream.backward());
}

bool isSufficient(const Stream& stream, const Buckets& buckets) {
  return stream.hasAutograd || buckets.size() > 1;
}

// DDP: one bucket in the first step where it lays out its buckets anew, micro-batches.
void ddp(Stream& stream) {
  Buckets buckets = drawBuckets(stream, 1, 8);
  const bool isRebuilt = stream.random.oneIn(2);
  const int nMicroBatches = stream.random.oneIn(3) ? stream.random.intBetween(2, 4) : 1;
  if (isSufficient(stream, buckets)) stream.expect(kKnown + 1);
  stream.broadcast(parametersOf(stream, buckets));
  for (; stream.step() < 14; stream.nextStep()) {
    if (stream.step() == 0 && isRebuilt) {
      Content all = stream.content(gradients(stream.random));
      stream.gradients(total(buckets), all, stream.backward());
      continue;
    }
    for (int i = 0; i < nMicroBatches; ++i) reduceAll(stream, buckets);
  }
}

// Evaluations reduce and gather something large between steps. What has the signature of a bucket
// closes that one for the rest of the epoch. Without autograd threads it could not be told from it:
// a program that begins to send something else by the same calls is a known limit.
void ddpWithEvaluations(Stream& stream) {
  Buckets buckets = drawBuckets(stream, 2, 6);
  const bool isEqual = stream.hasAutograd && stream.random.oneIn(3);
  const uint64_t count =
      isEqual ? buckets[stream.random.below(buckets.size())].count : stream.largeCount();
  Content metrics = stream.content(activations());
  const int every = stream.random.intBetween(10, 15);
  if (!isEqual) stream.expect(kKnown);
  stream.broadcast(parametersOf(stream, buckets));
  for (; stream.step() < 32; stream.nextStep()) {
    reduceAll(stream, buckets);
    if (stream.step() % every != every - 1) continue;
    stream.gather(stream.largeCount());
    for (int i = 0; i < 3; ++i) stream.others(count, metrics);
    // The period is seen whole again before it is measured again.
    if (!isEqual) stream.expect(stream.step() + 2 + static_cast<int>(kMeasuredCalls));
  }
}

// Metrics beside the gradients of each step, of any size. As integers they are known.
void ddpWithMetrics(Stream& stream) {
  Buckets buckets = drawBuckets(stream, 2, 6);
  const uint64_t most = std::max<uint64_t>(total(buckets) / 110, 40000);
  const uint64_t count =
      stream.random.oneIn(2) ? stream.random.between(40000, most) : stream.largeCount();
  const bool areIntegers = stream.random.oneIn(2);
  // In hooks of the backward pass, where only values can tell.
  const bool isInBackward = areIntegers && stream.hasAutograd && stream.random.oneIn(2);
  Content metrics = stream.content(areIntegers ? counts(stream.random) : activations());
  const bool isByChance = stream.random.oneIn(3);  // as if they were part of the model
  // Float metrics of up to what small tensors leave of the model are a limit where threads say
  // nothing: all of the model is reduced in large calls here.
  stream.broadcast(total(buckets) +
                   (isByChance && (areIntegers || stream.hasAutograd) ? count : 0));
  for (; stream.step() < 12; stream.nextStep()) {
    if (!isInBackward) stream.others(count, metrics);
    reduceAll(stream, buckets);
    if (isInBackward) stream.others(count, metrics, Caller::autograd);
  }
}

// The features of a batch are gathered, and the gradients of what was gathered reduced, as little
// beside the model as a batch is. Sharded models are left out: there the gradients of features are
// scattered as those of weights are, and nothing tells them apart.
void ddpWithGatheredFeatures(Stream& stream) {
  if (!stream.hasAutograd) return ddp(stream);
  Buckets buckets = drawBuckets(stream, 2, 4);
  buckets[0].count += 1 << 24;
  const auto nRanks = static_cast<uint64_t>(stream.nRanks);
  const uint64_t shard = stream.random.between(33000, total(buckets) / 120) / nRanks + 1;
  const bool scatters = stream.random.oneIn(2);
  Content features = stream.content(activations()), gathered = stream.content(activations());
  stream.broadcast(total(buckets));
  for (; stream.step() < 12; stream.nextStep()) {
    stream.gather(shard, Caller::other, &gathered);
    stream.others(scatters ? shard : shard * nRanks, features, Caller::autograd,
                  scatters ? CallKind::reduceScatter : CallKind::allReduce);
    reduceAll(stream, buckets);
  }
}

// FSDP 1 and 2, ZeRO-3: weights are gathered for the forward and mostly again for the backward
// pass.
void sharded(Stream& stream) {
  Buckets units = drawBuckets(stream, 2, 8);
  const bool gathersAgain = stream.random.oneIn(2);
  const bool isLastFromElsewhere = stream.random.oneIn(3);
  const auto isLast = [&](const Bucket& unit) { return unit.count == units.front().count; };
  const bool isUnlike = std::count_if(units.begin(), units.end(), isLast) == 1;
  if (!isLastFromElsewhere || isUnlike || !stream.hasAutograd) stream.expect(kKnown + 1);
  for (; stream.step() < 14; stream.nextStep()) {
    for (const Bucket& unit : units) stream.gather(unit.count);
    for (size_t i = units.size(); i > 0; --i) {
      Bucket& unit = units[i - 1];
      if (gathersAgain && i < units.size()) stream.gather(unit.count);
      const bool isElsewhere = isLastFromElsewhere && i == 1;
      stream.gradients(unit.count, unit.content, isElsewhere ? Caller::other : stream.backward(),
                       CallKind::reduceScatter);
    }
  }
}

// One unit for the whole model: nothing says that it is one but the pair of calls.
void shardedInOneUnit(Stream& stream) {
  Buckets units = drawBuckets(stream, 1, 1);
  Bucket& unit = units.front();
  if (stream.hasAutograd) stream.expect(kKnownAmbiguous + 1);
  for (; stream.step() < kKnownAmbiguous + 10; stream.nextStep()) {
    stream.gather(unit.count);
    stream.gradients(unit.count, unit.content, stream.backward(), CallKind::reduceScatter);
  }
}

// ZeRO-1 and 2, and Megatron's distributed optimizer: what is left of the buckets comes last from
// the main thread, then the weights are gathered. Megatron's first step comes from there as a
// whole.
void zero(Stream& stream) {
  Buckets buckets = drawBuckets(stream, 2, 6);
  const bool scatters = stream.random.oneIn(2);
  const bool isFirstFromElsewhere = stream.random.oneIn(2);
  const bool isLastFromElsewhere = stream.random.oneIn(2);
  // What comes from both threads by the same call is taken for activations.
  const auto isLast = [&](const Bucket& bucket) { return bucket.count == buckets.back().count; };
  const bool isUnlike = std::count_if(buckets.begin(), buckets.end(), isLast) == 1;
  if (!isLastFromElsewhere || isUnlike || !stream.hasAutograd) stream.expect(kKnown + 1);
  if (!scatters) stream.broadcast(parametersOf(stream, buckets));
  const auto nRanks = static_cast<uint64_t>(stream.nRanks);
  for (; stream.step() < 14; stream.nextStep()) {
    for (Bucket& bucket : buckets) {
      const bool isElsewhere = (isFirstFromElsewhere && stream.step() == 0) ||
                               (isLastFromElsewhere && &bucket == &buckets.back());
      stream.gradients(bucket.count, bucket.content,
                       isElsewhere ? Caller::other : stream.backward(),
                       scatters ? CallKind::reduceScatter : CallKind::allReduce);
    }
    for (const Bucket& bucket : buckets)
      stream.gather(scatters ? bucket.count : bucket.count / nRanks + 1);
  }
}

// Loops over p.grad after the backward pass, JAX: each tensor by itself.
void loopOverGradients(Stream& stream) {
  Buckets tensors = drawBuckets(stream, 2, 30);
  stream.expect(kKnown);
  for (const Bucket& tensor : tensors) stream.broadcast(tensor.count);
  for (; stream.step() < 10; stream.nextStep()) reduceAll(stream, tensors);
}

// Large batches, or ranks that differ little: unknown, as long as that is so.
void loopOfLittleNoise(Stream& stream) {
  if (stream.hasAutograd) return ddp(stream);
  Buckets tensors = drawBuckets(stream, 2, 10);
  const int nFirst = stream.random.intBetween(10, 30);
  for (Bucket& tensor : tensors) stream.broadcast(tensor.count);
  std::vector<Content> first;
  for (size_t i = 0; i < tensors.size(); ++i)
    first.push_back(stream.content(gradientsOfLittleNoise(stream.random)));
  for (; stream.step() < nFirst; stream.nextStep())
    for (size_t i = 0; i < tensors.size(); ++i)
      stream.gradients(tensors[i].count, first[i], stream.backward());
  // Asked again after twice as long each time.
  stream.expect(2 * nFirst + kKnown);
  for (; stream.step() < 2 * nFirst + 20; stream.nextStep()) reduceAll(stream, tensors);
}

// Nothing says that it is all of a model: equal layers, or no broadcast.
void loopThatIsNotKnown(Stream& stream) {
  const bool areEqual = stream.random.oneIn(2);
  Buckets tensors = drawBuckets(stream, 2, 12);
  if (areEqual)
    for (Bucket& tensor : tensors) tensor.count = tensors[0].count;
  for (; stream.step() < 40; stream.nextStep()) reduceAll(stream, tensors);
}

// Horovod: what is ready is sent together.
void fused(Stream& stream) {
  stream.broadcast(stream.largeCount());
  for (; stream.step() < 20; stream.nextStep()) {
    Buckets buffers = drawBuckets(stream, 1, 4);
    for (Bucket& buffer : buffers) stream.gradients(buffer.count, buffer.content, Caller::other);
  }
}

}  // namespace

const std::vector<Kind> kGradientKinds = {{"ddp", ddp},
                                          {"ddp, evaluations", ddpWithEvaluations},
                                          {"ddp, metrics", ddpWithMetrics},
                                          {"ddp, gathered features", ddpWithGatheredFeatures},
                                          {"sharded", sharded},
                                          {"sharded, one unit", shardedInOneUnit},
                                          {"zero", zero},
                                          {"loop", loopOverGradients},
                                          {"loop, little noise", loopOfLittleNoise},
                                          {"loop, not known", loopThatIsNotKnown},
                                          {"fused", fused}};

}  // namespace cinch::identity
