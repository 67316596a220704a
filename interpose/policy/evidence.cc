#include "interpose/policy/evidence.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

namespace cinch {
namespace {

struct EvidenceText {
  CallClass callClass;
  const char* text;
};

// In the order of the enum.
constexpr EvidenceText kEvidence[] = {
    {CallClass::gradient, "PyTorch's autograd engine reduces it, on a known position of the step"},
    {CallClass::gradient, "autograd threads reduce it, and nothing large comes from elsewhere"},
    {CallClass::gradient, "it completes the model, which autograd threads reduce the rest of"},
    {CallClass::gradient, "autograd threads scatter it into shards of the model"},
    {CallClass::gradient, "autograd threads average it into shards that are gathered again"},
    {CallClass::gradient,
     "it is scattered into shards as large as those of weights gathered beside it"},
    {CallClass::gradient, "autograd threads reduce what they have just scattered into shards"},
    {CallClass::gradient, "the reductions of a step are as large as the model, and differ"},
    {CallClass::gradient, "PyTorch DDP has sent these buckets"},
    {CallClass::state,
     "its values are nearly the same on all ranks or in successive steps, as weights are"},
    {CallClass::other, "its values are integers"},
    {CallClass::other, "its values are all of one sign, as squares and variances are"},
    {CallClass::other, "every part of it comes from one rank, and is zero on the others"},
    {CallClass::state,
     "weights or other state are reduced beside it, and the model is not whole without"},
    {CallClass::activation, "the same call comes from autograd threads and from others"},
    {CallClass::activation, "as many values are broadcast in each step"},
    {CallClass::other, "it comes from another thread than the gradients of this process"},
    {CallClass::unknown, "the calls repeat themselves, but may be less than a step"},
    {CallClass::unknown, "all reductions of a step are alike, which averaged weights are, too"},
    {CallClass::unknown, "the reductions of a step are not those of a whole model"},
    {CallClass::unknown, "nearly all of its values are zero"},
    {CallClass::unknown,
     "ranks and steps have much in common, as weights do, or it grows from step to step"},
    {CallClass::unknown, "PyTorch DDP has sent its buckets, and this is none of them"},
    {CallClass::unknown,
     "PyTorch reduces it outside of the backward pass, as averages and statistics are"},
    {CallClass::unknown, "it comes from another buffer than what was measured"},
    {CallClass::unknown, "another rank sees what contradicts it"},
};

const EvidenceText& entryOf(Evidence evidence) {
  return kEvidence[static_cast<size_t>(evidence)];
}

}  // namespace

CallClass classOf(Evidence evidence) {
  return entryOf(evidence).callClass;
}

const char* textOf(Evidence evidence) {
  return entryOf(evidence).text;
}

Reason reasonOf(Evidence evidence) {
  switch (evidence) {
    case Evidence::alike:
    case Evidence::besideVetoes:
      return Reason::state;
    case Evidence::bothThreads:
    case Evidence::broadcastInStep:
      return Reason::activation;
    case Evidence::integers:
    case Evidence::ofOneSign:
    case Evidence::gatheredBySums:
      return Reason::otherValues;
    case Evidence::anotherThread:
      return Reason::otherThread;
    case Evidence::anotherRank:
      return Reason::vetoed;
    case Evidence::ambiguous:
      return Reason::ambiguous;
    default:
      return isGradient(evidence) ? Reason::none : Reason::unproven;
  }
}

std::optional<Evidence> evidenceOf(uint8_t number) {
  if (number >= std::size(kEvidence)) return std::nullopt;
  return static_cast<Evidence>(number);
}

bool mayChange(Evidence evidence) {
  return evidence == Evidence::tooFewValues || evidence == Evidence::steady ||
         evidence == Evidence::ofOneSign || evidence == Evidence::ambiguous ||
         evidence == Evidence::besideDdp;
}

bool isVeto(Evidence evidence) {
  const CallClass found = classOf(evidence);
  return found != CallClass::gradient && found != CallClass::unknown;
}

uint32_t TrainingStep::nSlots() const {
  uint32_t slots = 0;
  for (const Call& call : calls)
    if (call.isReduction) slots = std::max(slots, call.slot + 1);
  return slots;
}

uint32_t TrainingStep::nSites() const {
  const auto isWatched = [](const Call& call) { return call.isWatched; };
  return nSlots() + static_cast<uint32_t>(std::ranges::count_if(calls, isWatched));
}

void TrainingStep::watchGathers() {
  if (isPlaced && !isSharded) return;
  uint32_t site = nSlots();
  for (Call& gather : calls) {
    const auto isSame = [&gather](const Call& call) {
      return call.isWatched && call.signature.count == gather.signature.count;
    };
    const auto isScattered = [&gather](const Call& call) {
      return call.signature.kind == CallKind::reduceScatter && call.isReduction &&
             call.signature.count == gather.signature.count;
    };
    gather.isWatched = gather.isGather && isCompressibleType(gather.signature.dataType) &&
                       std::ranges::any_of(calls, isScattered) &&
                       std::ranges::none_of(calls, isSame);
    if (gather.isWatched) gather.slot = site++;
  }
}

bool TrainingStep::isGatheredNext() const {
  uint64_t gathered = 0;
  size_t nChanges = 0;  // from reductions to gathers
  bool isAfterReduction = false;
  for (size_t i = 0; i < 2 * calls.size(); ++i) {
    const Call& call = calls[i % calls.size()];
    const bool isCounted = i >= calls.size();  // the period may begin between its gathers
    if (call.isGather && isCounted) gathered += call.signature.count;
    if (call.isGather && isCounted && isAfterReduction) ++nChanges;
    if (call.isGather || call.isReduction) isAfterReduction = call.isReduction;
  }
  return nChanges == 1 && isWhole(gathered * nRanks);
}

bool TrainingStep::isEachSiteCalledOnce() const {
  return std::ranges::count_if(calls, &Call::isReduction) == static_cast<ptrdiff_t>(nSlots());
}

StepEvidence::StepEvidence(TrainingStep step)
    : step_(std::move(step)),
      threads_(step_.calls.size()),
      values_(step_.nSlots()),
      gathers_(step_.nSites() - step_.nSlots()) {}

void StepEvidence::note(uint32_t position, const CallOrigin& origin) {
  if (position >= threads_.size()) return;
  Threads& threads = threads_[position];
  threads.ever = origin.ever;
  (origin.caller == Caller::autograd ? threads.hasAutograd : threads.hasOther) = true;
  isAutogradAlone_ = origin.isAutogradAlone && !origin.reducesBeside;
}

Evidence StepEvidence::of(uint32_t slot, const ProcessFacts& process) const {
  if (slot >= values_.size()) return Evidence::notTheModel;
  if (const auto veto = vetoOn(slot)) return *veto;
  const Threads threads = threadsOf(slot);
  const Evidence found =
      threads.hasAutograd ? threads.hasOther ? Evidence::bothThreads : fromAutograd(slot, process)
                          : fromElsewhere(slot, process);
  const bool areValuesKnown = values_[slot] != ValueVerdict::tooFew;
  return isGradient(found) && !areValuesKnown ? Evidence::tooFewValues : found;
}

std::optional<Evidence> StepEvidence::vetoOn(uint32_t slot) const {
  switch (values_[slot]) {
    case ValueVerdict::alike:
      return Evidence::alike;
    case ValueVerdict::integers:
      return Evidence::integers;
    case ValueVerdict::ofOneSign:
      return Evidence::ofOneSign;
    case ValueVerdict::gatheredBySums:
      return Evidence::gatheredBySums;
    default:
      break;
  }
  if (comesFromBoth(slot)) return Evidence::bothThreads;
  return std::nullopt;
}

const TrainingStep::Call& StepEvidence::reductionOf(uint32_t slot) const {
  return *std::ranges::find_if(step_.calls, [slot](const TrainingStep::Call& call) {
    return call.isReduction && call.slot == slot;
  });
}

const TrainingStep::Call& StepEvidence::callOf(uint32_t site) const {
  if (site < values_.size()) return reductionOf(site);
  return *std::ranges::find_if(step_.calls, [site](const TrainingStep::Call& call) {
    return call.isWatched && call.slot == site;
  });
}

StepEvidence::Threads StepEvidence::threadsOf(uint32_t slot) const {
  Threads all;
  for (size_t i = 0; i < threads_.size(); ++i) {
    if (!step_.calls[i].isReduction || step_.calls[i].slot != slot) continue;
    all.hasAutograd |= threads_[i].hasAutograd;
    all.hasOther |= threads_[i].hasOther;
  }
  return all;
}

// Tensor parallelism sums up activations in the forward pass and their gradients in the backward
// pass, by the same calls.
bool StepEvidence::comesFromBoth(uint32_t slot) const {
  const Signature& signature = reductionOf(slot).signature;
  Threads all;
  for (size_t i = 0; i < threads_.size(); ++i) {
    if (!step_.calls[i].isReduction || step_.calls[i].signature != signature) continue;
    if (threads_[i].ever.areBoth()) return true;
    all.hasAutograd |= threads_[i].hasAutograd;
    all.hasOther |= threads_[i].hasOther;
  }
  return all.hasAutograd && all.hasOther;
}

// What every rank needs of a split layer's input, whose gradients are summed up.
bool StepEvidence::isBroadcastInStep(uint64_t count) const {
  return std::ranges::any_of(step_.calls, [count](const TrainingStep::Call& call) {
    return call.isBroadcast && call.signature.count == count;
  });
}

bool StepEvidence::areAllFromAutograd() const {
  for (size_t i = 0; i < threads_.size(); ++i) {
    const bool matters = step_.calls[i].isReduction || step_.calls[i].isGather;
    if (matters && threads_[i].hasOther) return false;
  }
  return true;
}

// Of the reductions, each slot once.
uint64_t StepEvidence::valuesFrom(bool autograd) const {
  uint64_t values = 0;
  for (uint32_t slot = 0; slot < values_.size(); ++slot) {
    const Threads threads = threadsOf(slot);
    if (threads.hasAutograd == autograd && threads.hasOther != autograd)
      values += reductionOf(slot).signature.count;
  }
  return values;
}

Evidence StepEvidence::fromAutograd(uint32_t slot, const ProcessFacts& process) const {
  const Signature& signature = reductionOf(slot).signature;
  if (signature.kind == CallKind::reduceScatter) return ofShards(slot, process);
  if (isBroadcastInStep(signature.count)) return Evidence::broadcastInStep;
  if (process.ddp == DdpClaim::isBeside) return Evidence::besideDdp;
  const bool areAlone = areAllFromAutograd();
  const bool isNamed = process.ddp == DdpClaim::isOwn;
  if (isNamed && !(areAlone && step_.isPlaced)) return Evidence::ddpMessages;
  if (!step_.isPlaced && areAlone && process.isOfShard) return Evidence::ofShard;
  const bool isOfNoModel = areAlone && isAutogradAlone_ && process.ddp != DdpClaim::unclear;
  if (!step_.isPlaced) return isOfNoModel ? Evidence::autogradAlone : Evidence::ambiguous;
  if (areAlone) return Evidence::autogradThreads;
  uint64_t model = valuesFrom(true);
  if (!step_.isWhole(model)) {
    const auto slots = std::views::iota(uint32_t{0}, static_cast<uint32_t>(values_.size()));
    if (std::ranges::none_of(slots, [this](uint32_t other) { return completesModel(other); }))
      return Evidence::notTheModel;
    model += valuesFrom(false);
  }
  // What other threads gather may be features, whose gradients autograd threads reduce, too.
  const bool isNeeded = !step_.isWhole(model - signature.count);
  return isNeeded ? Evidence::autogradThreads : Evidence::notTheModel;
}

Evidence StepEvidence::ofShards(uint32_t slot, const ProcessFacts& process) const {
  // Features that are gathered beside the weights count on both sides of a sharded model.
  if (step_.isPlaced && isGathered(slot, GatherVerdict::different)) return Evidence::ambiguous;
  if (step_.isPlaced) return step_.isSharded ? Evidence::scattersShards : Evidence::notTheModel;
  const Signature& signature = reductionOf(slot).signature;
  const bool averages = signature.op == OpClass::avg || signature.op == OpClass::preMulSum;
  const bool isGathered = std::ranges::any_of(step_.calls, [&](const TrainingStep::Call& call) {
    return call.isGather && call.signature.count == signature.count;
  });
  if (averages && isGathered) return Evidence::averagesShards;
  return areAllReturnedAsWeights(process) ? Evidence::returnsAsWeights : Evidence::ambiguous;
}

// What is gathered of features, whose gradients are scattered, differs from batch to batch, but for
// those of a network that has hardly been trained. Beside these, gradients are reduced by other
// calls: all of a period must be of shards that return as weights.
bool StepEvidence::areAllReturnedAsWeights(const ProcessFacts& process) const {
  const auto slots = std::views::iota(uint32_t{0}, static_cast<uint32_t>(values_.size()));
  return std::ranges::all_of(slots, [&](uint32_t slot) {
    return isGathered(slot, GatherVerdict::alike) ||
           (process.codesGathers && isGathered(slot, GatherVerdict::unknown));
  });
}

// Shards as large as those of the slot, with that verdict.
bool StepEvidence::isGathered(uint32_t slot, GatherVerdict as) const {
  const Signature& scatter = reductionOf(slot).signature;
  return scatter.kind == CallKind::reduceScatter &&
         std::ranges::any_of(step_.calls, [&](const TrainingStep::Call& call) {
           return call.isWatched && call.signature.count == scatter.count &&
                  gathers_[call.slot - values_.size()] == as;
         });
}

Evidence StepEvidence::fromElsewhere(uint32_t slot, const ProcessFacts& process) const {
  const bool isAllReduce = reductionOf(slot).signature.kind == CallKind::allReduce;
  if (isAllReduce && process.ddp == DdpClaim::isBeside) return Evidence::besideDdp;
  if (process.reducesFromAutograd)
    return completesModel(slot) ? Evidence::completesModel : Evidence::anotherThread;
  if (!step_.isPlaced) {
    // Megatron-core's distributed optimizer reduces after the backward pass, from the main thread.
    // An iterative solver would do the same, so that the process must have trained something, and
    // all that is reduced be noise.
    const auto isNoise = [](ValueVerdict values) { return values == ValueVerdict::unsuspicious; };
    const bool isTraining = process.hasAutogradThreads && std::ranges::all_of(values_, isNoise);
    return isTraining && areAllReturnedAsWeights(process) ? Evidence::returnsAsWeights
                                                          : Evidence::ambiguous;
  }
  if (isBroadcastInStep(reductionOf(slot).signature.count)) return Evidence::broadcastInStep;
  if (isAllReduce && process.ddp == DdpClaim::isOwn) return Evidence::ddpMessages;
  const bool isOfShards = step_.isSharded || step_.isGatheredNext();
  if (process.isPyTorch && !isOfShards) return Evidence::outsideBackward;
  if (!hasTwoSignatures()) return Evidence::oneSignature;
  if (!step_.isEachSiteCalledOnce()) return Evidence::notTheModel;
  return ofWholeModel();
}

// What is left of a step's buckets after the backward pass is reduced last, by the main thread,
// which gathers the weights then.
bool StepEvidence::completesModel(uint32_t slot) const {
  const Threads threads = threadsOf(slot);
  if (!step_.isPlaced || threads.hasAutograd || !threads.hasOther) return false;
  const uint64_t rest = valuesFrom(true);
  // Averaged weights are as large as the model, too.
  if (rest == 0 || !isOneOfEachStepFromElsewhere()) return false;
  if (step_.isSharded) return reductionOf(slot).signature.kind == CallKind::reduceScatter;
  return !step_.isWhole(rest) && step_.isWhole(rest + valuesFrom(false));
}

// A period may be several steps, and a step several micro-batches.
bool StepEvidence::isOneOfEachStepFromElsewhere() const {
  std::vector<std::pair<Signature, bool>> reductions;  // whether from elsewhere
  for (size_t i = 0; i < threads_.size(); ++i) {
    if (!step_.calls[i].isReduction) continue;
    reductions.emplace_back(step_.calls[i].signature, threads_[i].hasOther);
    const bool isGatheredNext = step_.calls[(i + 1) % threads_.size()].isGather;
    if (threads_[i].hasOther && !isGatheredNext) return false;
  }
  const auto isElsewhere = [](const auto& reduction) { return reduction.second; };
  const auto nSteps = static_cast<size_t>(std::ranges::count_if(reductions, isElsewhere));
  if (nSteps == 0 || reductions.size() % nSteps != 0) return false;
  const size_t length = reductions.size() / nSteps;
  return std::equal(reductions.begin() + static_cast<ptrdiff_t>(length), reductions.end(),
                    reductions.begin());
}

bool StepEvidence::hasTwoSignatures() const {
  const Signature& first = reductionOf(0).signature;
  return std::ranges::any_of(step_.calls, [&](const TrainingStep::Call& call) {
    return call.isReduction && call.signature != first;
  });
}

// Counts beside the gradients of a step are not needed for the size of the model. Weights may be
// recognised in a part of the sites alone: where some of a period are weights, all may be. Nor is
// anything known where one has not been measured, or has little noise. More than the model is
// something besides its gradients, which nothing tells from them.
Evidence StepEvidence::ofWholeModel() const {
  uint64_t values = 0;
  bool hasCounts = false;
  std::optional<Evidence> unknown;
  for (uint32_t slot = 0; slot < values_.size(); ++slot) {
    switch (values_[slot]) {
      case ValueVerdict::alike:
        return Evidence::besideVetoes;
      case ValueVerdict::steady:
        unknown = Evidence::steady;
        break;
      case ValueVerdict::integers:
      case ValueVerdict::ofOneSign:
      case ValueVerdict::gatheredBySums:
        hasCounts = true;
        break;
      case ValueVerdict::tooFew:
        unknown = Evidence::tooFewValues;
        break;
      case ValueVerdict::unsuspicious:
        values += reductionOf(slot).signature.count;
    }
  }
  if (unknown) return *unknown;
  const bool isWhole =
      step_.isSharded ? !hasCounts : step_.isWhole(values) && values <= step_.parameters;
  if (isWhole) return Evidence::wholeModel;
  return hasCounts ? Evidence::besideVetoes : Evidence::notTheModel;
}

}  // namespace cinch
