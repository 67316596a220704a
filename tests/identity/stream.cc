#include "tests/identity/stream.h"

namespace cinch::identity {
namespace {

OpClass drawOp(Random& random) {
  return random.oneIn(2) ? OpClass::sum : OpClass::avg;
}

}  // namespace

Stream::Stream(uint64_t seed, const Disabled& disabled)
    : random(seed),
      nRanks(random.intBetween(2, 8)),
      hasAutograd(!random.oneIn(3)),
      isPyTorch(hasAutograd || random.oneIn(4)),
      type(random.oneIn(2) ? ncclFloat32 : ncclBfloat16),
      op(drawOp(random)),
      weights_(content(weights(random))),
      job_({.nRanks = nRanks,
            .vetoes = disabled.vetoes,
            .runs = {kRun},
            .hasAutogradThreads = isPyTorch,
            .seesThreads = !disabled.threads}) {}

uint64_t Stream::largeCount() {
  return static_cast<uint64_t>(random.logUniform(1 << 16, 1 << 23));
}

void Stream::broadcast(uint64_t count) {
  call({CallKind::broadcast, OpClass::none, type, count}, nullptr, Caller::other);
}

void Stream::gather(uint64_t count, Caller caller, Content* features) {
  Content* const content = features == nullptr ? &weights_ : features;
  call({CallKind::allGather, OpClass::none, type, count}, content, caller);
}

void Stream::gradients(uint64_t count, Content& content, Caller caller, CallKind kind) {
  const bool isCompressed = reduce(kind, count, content, caller);
  if (expectedFrom_ < 0 || step_ < expectedFrom_) return;
  const uint64_t bytes = bufferBytes({kind, op, type, count}, nRanks);
  result_.expectedBytes += bytes;
  result_.compressedBytes += isCompressed ? bytes : 0;
}

void Stream::others(uint64_t count, Content& content, Caller caller, CallKind kind) {
  result_.nWrong += reduce(kind, count, content, caller);
}

void Stream::reduceElsewhere() {
  const std::vector<Caller> callers(static_cast<size_t>(nRanks), Caller::autograd);
  job_.noteElsewhere({CallKind::allReduce, op, type, 1 << 20}, callers);
}

bool Stream::reduce(CallKind kind, uint64_t count, Content& content, Caller caller) {
  return call({kind, op, type, count}, &content, caller);
}

bool Stream::call(const Signature& signature, Content* content, Caller caller) {
  const std::vector<Caller> callers(static_cast<size_t>(nRanks), caller);
  std::vector<SampledCall> values;
  const Content::Facts facts{static_cast<size_t>(nRanks), op == OpClass::avg, type == ncclBfloat16};
  const bool isCompressed = job_.call(signature, callers, [&](size_t rank) {
    if (values.empty()) values = content->sample(facts);
    return values[rank];
  });
  if (content != nullptr) content->goOn();
  return isCompressed;
}

}  // namespace cinch::identity
