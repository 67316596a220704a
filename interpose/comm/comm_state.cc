#include "interpose/comm/comm_state.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "common/hash.h"
#include "common/log.h"
#include "common/text.h"
#include "interpose/comm/memory_reserve.h"
#include "interpose/comm/report_writer.h"
#include "interpose/comm/residual_dump.h"
#include "interpose/comm/rule_source.h"
#include "interpose/policy/precision/segments.h"

namespace cinch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kErrorPollTime{1};
const History kWellKnown{std::numeric_limits<uint32_t>::max(), {.kind = Place::Kind::known}};
constexpr uint64_t kUnknownCapture = std::numeric_limits<uint64_t>::max();

std::string faultText(uint32_t bits) {
  static constexpr const char* kNames[] = {"magic", "version", "codec", "plan", "slot", "ordinal"};
  std::string text;
  for (int bit = 0; bit < 6; ++bit)
    if (bits >> bit & 1) text += (text.empty() ? "" : ", ") + std::string(kNames[bit]);
  return text;
}

std::string nameOf(int rank, int nRanks) {
  static std::atomic<int> made{0};
  return "communicator " + std::to_string(++made) + " rank " + std::to_string(rank) + " of " +
         std::to_string(nRanks);
}

// How the devices of an only host are joined, and the ranks of each host: "1:0,1,2,3,|".
std::string placementText(const Hosts& hosts, Links links) {
  std::string text = std::to_string(hosts.size() == 1 ? static_cast<int>(links) : 0) + ":";
  for (const std::vector<int>& ranks : hosts) {
    for (const int rank : ranks) text += std::to_string(rank) + ",";
    text += "|";
  }
  return text;
}

// Behind the last call, which may never end.
void giveResidualsBack(const CommResources& resources, const ResidualStore::Slots& slots,
                       const Event& lastUse) {
  const RelaxedCapture relaxed(*resources.device);
  const CurrentDevice current(*resources.device, resources.cudaDevice);
  const auto stream = SideStream::create(*resources.device);
  if (!stream.ok() || (lastUse && !lastUse.orderBefore(stream.value().get()).ok())) return;
  for (const auto& slot : slots) slot->residuals.giveBack(stream.value().get());
}

}  // namespace

CommState::CommState(const RealNccl& real, ncclComm_t comm, int rank, int nRanks,
                     std::unique_ptr<Joining> joining)
    : real(real),
      comm(comm),
      rank(rank),
      nRanks(nRanks),
      name(nameOf(rank, nRanks)),
      params_(processParams().params),
      rules_(processRules().ok() ? processRules().value() : Rules()),
      joining_(std::move(joining)),
      agreement_(joining_->agreement()),
      steps_(resources, nRanks) {
  facts_.nRanks = nRanks;
  if (!params_.trace.empty())
    tracer = std::make_unique<CallTracer>(name, static_cast<uint64_t>(params_.traceEvery));
}

Result<void> CommState::settle() {
  if (settled_) return *settled_;
  settled_ = Result<void>();
  const Verdict verdict = hearVerdict();
  enrol(verdict);
  joining_.reset();
  if (verdict.compress) {
    CINCH_INFO("AGREE", "%s: %s", name.c_str(), stats_->label.verdict.c_str());
    return {};
  }
  if (nRanks == 1) return {};
  if (params_.strict) {
    const Error error =
        errorf(Status::invalidUsage, "CINCH_STRICT: %s: %s", name.c_str(), verdict.reason.c_str());
    fail(error);
    settled_ = error;
    return error;
  }
  CINCH_WARN("AGREE", "%s is not compressed: %s", name.c_str(), verdict.reason.c_str());
  return {};
}

// All ranks come to the same: they have the same plan, and what it is held against is agreed.
Verdict CommState::hearVerdict() {
  Verdict verdict = joining_->hearVerdict();
  if (!verdict.compress) return verdict;
  hosts_ = hostsOf(verdict.hostIds);
  const std::string queues = hasOneDeviceQueue() ? "one" : "several";
  const PlannedComm now{nRanks, hashText(agreedSettings(params_, rules_, "") + queues),
                        hashText(placementText(hosts_, verdict.links))};
  const auto begun = decisions.begin(agreement_, verdict.communicator, now, rank == 0);
  return begun.ok() ? verdict : Verdict{false, begun.error().message, {}};
}

void CommState::enrol(const Verdict& verdict) {
  stats_ = &processReport().addComm({.name = name,
                                     .rank = rank,
                                     .nRanks = nRanks,
                                     .verdict = verdict.compress
                                                    ? "all ranks run Cinch with the same settings"
                                                    : "pass: " + verdict.reason,
                                     .reasons = kReasonNames,
                                     .classes = kReasonClasses,
                                     .agreedName = verdict.communicator,
                                     .nUsedSms = joining_->resources.sms.nUsed,
                                     .nSms = joining_->resources.sms.nThere});
  // Kept without use, too: freeing it would wait for the device.
  resources = std::move(joining_->resources);
  if (!verdict.compress) return;
  fault_.store(resources.fault.as<uint32_t>());
  facts_.agreed = true;
  selections.figures = &stats_->sending;
  selections.isOn = params_.when == WhenChoice::automatic;
  selections.seed = hashText(verdict.communicator);
  facts_.severalHosts = hosts_.size() > 1;
  facts_.isOnPcie = !facts_.severalHosts && verdict.links == Links::pcie;
  if (rank == 0) layers_ = std::make_unique<BucketLayers>(name, resources, nRanks);
}

OpClass CommState::classOf(ncclRedOp_t op, ncclDataType_t type) const {
  if (op < ncclNumOps) return opClassOf(op);
  return ops.find(op, type) ? OpClass::preMulSum : OpClass::other;
}

InputFactor CommState::factorOf(ncclRedOp_t op, ncclDataType_t type) const {
  return op < ncclNumOps ? InputFactor() : ops.find(op, type).value_or(InputFactor());
}

uint64_t CommState::captureIdOf(CUstream_st* stream) const {
  uint64_t id = 0;
  const CurrentDevice current(*resources.device, resources.cudaDevice);
  // What cannot be asked (a null stream while another one captures) cannot be used either.
  return resources.device->captureId(stream, &id) == 0 ? id : kUnknownCapture;
}

CommState::Decision CommState::decide(const Signature& signature, CUstream_st* stream,
                                      const void* buffer_dev, int root) {
  if (const auto settled = settle(); !settled.ok() || !facts_.agreed)
    return {cinch::decide(params_, facts_, signature, {})};
  // Of every call, small ones included: a rank makes its graph when it pleases, and what it counted
  // of that would part it from the others.
  if (const uint64_t captureId = captureIdOf(stream); captureId != 0)
    return decideCaptured(signature, captureId);
  Decision decision = decideCounted(signature, buffer_dev, root);
  const bool mayEver =
      decision.reason == Reason::none || decision.exam ||
      cinch::decide(params_, facts_, signature, inTheEnd(signature)) == Reason::none;
  decision.isNumbered = mayEver && !hasLeft_;
  return decision;
}

// What is known of a call that has been made for ever.
History CommState::inTheEnd(const Signature& signature) const {
  History history = kWellKnown;
  history.rule = rules_.find(signature, nRanks, history.seenBefore);
  return history;
}

CommState::Decision CommState::decideCounted(const Signature& signature, const void* buffer_dev,
                                             int root) {
  const auto seen = signatures_.observe(signature);
  const std::optional<uint32_t> index = seen ? std::optional(seen->index) : std::nullopt;
  const auto [place, exam, contrary, periodCalls] = observe(signature, index, buffer_dev, root);
  if (layers_) layers_->follow(signature);
  decisions.setPeriod(steps_.sequence().period());
  const bool isNew = !seen || seen->before == 0;
  if (place.kind == Place::Kind::unknown && (isNew || marksNewLayout(signature)))
    for (const auto& slot : slots_) slot->residuals.drop();
  CallStats& call = callOf(index.value_or(SignatureTable::kNoIndex), signature);
  if (!seen) return {Reason::manyKinds, nullptr, true, 0, &call};
  const History history{seen->before, place, rules_.find(signature, nRanks, seen->before),
                        steps_.sequence().timesPerPeriod(seen->index)};
  Decision decision{cinch::decide(params_, facts_, signature, history), nullptr, true, 0, &call};
  decision.place = place;
  decision.periodCalls = periodCalls;
  const bool isNamed = history.rule != nullptr && history.rule->isGradient;
  // What the user calls a gradient is one. A period that goes on after a surprise is measured while
  // its position is being found.
  const bool isExamined = decision.reason == Reason::none || decision.reason == Reason::unplaced;
  if (exam.isOfGather ? decision.reason != Reason::none : !isNamed && isExamined)
    decision.exam = exam;
  if (decision.reason != Reason::none && decision.reason != Reason::observe) return decision;
  const Coding coding =
      codingOf(params_, signature.kind, place, static_cast<uint32_t>(rank), history.rule);
  call.codec.store(coding.name(), std::memory_order_relaxed);
  if (decision.reason != Reason::none) return decision;
  decision.contrary = contrary;
  if (decision.exam) decision.exam.step->askAgain(place.slot, seen->before);
  if (decision.exam && decision.exam.step->phase(place.slot) == StepExam::Phase::decided)
    decision.reason = reasonOf(decision.exam.step->outcome(place.slot));
  if (decision.reason != Reason::none) return decision;
  // What may be anything takes no memory before it is found to be a gradient.
  const bool isOpen =
      decision.exam && decision.exam.step->phase(place.slot) != StepExam::Phase::decided;
  if (isOpen && place.kind == Place::Kind::ambiguous) return decision;
  decision.slot = slotOf(seen->index, signature, place, coding);
  if (decision.slot == nullptr) decision.reason = Reason::unrecorded;
  return decision;
}

CallStats& CommState::callOf(uint32_t signatureIndex, const Signature& signature) {
  if (signatureIndex >= calls_.size()) calls_.resize(signatureIndex + 1);
  CallStats*& call = calls_[signatureIndex];
  if (call == nullptr)
    call = &stats_->addCall(signatureIndex == SignatureTable::kNoIndex ? "calls beyond the table"
                                                                       : describe(signature));
  return *call;
}

void CommState::hear(const Signature& signature, const void* received_dev, CUstream_st* stream,
                     ncclResult_t result) {
  if (!layers_) return;
  if (result == ncclSuccess)
    layers_->hear(signature, received_dev, stream);
  else
    layers_->miss(signature);
}

void CommState::takeBack(const Signature& signature) {
  signatures_.takeBack(signature);
  steps_.takeBack();
  selections.takeBack();
}

// Where the signature alone is the slot, nothing is learned. Only large reductions have a slot of
// their own in the step.
StepTracker::Observed CommState::observe(const Signature& signature, std::optional<uint32_t> index,
                                         const void* buffer_dev, int root) {
  if (params_.slots != SlotChoice::sequence) return {};
  return steps_.observe(signature, index, isLarge(params_, facts_, signature), buffer_dev, root);
}

// A capture is collective, NCCL wants it on all ranks or on none; but never may a host wait in it.
CommState::Decision CommState::decideCaptured(const Signature& signature, uint64_t captureId) {
  Decision decision{Reason::capturing};
  if (const auto index = signatures_.find(signature)) decision.call = &callOf(*index, signature);
  if (captureId == kUnknownCapture) return decision;
  if (params_.slots == SlotChoice::sequence) leaveIfUndecided(signature);
  auto first = captured_.find(signature);
  if (first == captured_.end() && captured_.size() < SignatureTable::kMaxSignatures)
    first = captured_.emplace(signature, readySlot(signature)).first;
  if (first == captured_.end() || first->second == nullptr) return decision;
  decision.reason = Reason::none;
  decision.slot = first->second;
  decision.captureId = captureId;
  return decision;
}

// Another rank may make eagerly what this one has captured, and number it. Where nothing is
// compressed yet, nothing will be.
void CommState::leaveIfUndecided(const Signature& signature) {
  const auto isDecided = [](const auto& slot) {
    return slot->phase == SlotPhase::connected || slot->phase == SlotPhase::active;
  };
  if (hasLeft_ || std::ranges::any_of(slots_, isDecided)) return;
  if (cinch::decide(params_, facts_, signature, inTheEnd(signature)) != Reason::none) return;
  hasLeft_ = true;
  agreement_->close();
  CINCH_INFO(
      "POLICY",
      "%s: %s was captured into a graph before any call was compressed: all calls pass; make "
      "some steps without the graph first",
      name.c_str(), describe(signature).c_str());
}

// A captured call has no place in the sequence, and can have no slot that has one. It is one of all
// calls to come. Only what a setting names, which is equal on all ranks, can be known to be meant.
Slot* CommState::readySlot(const Signature& signature) const {
  const History history = inTheEnd(signature);
  const bool isNamed =
      history.rule != nullptr && (history.rule->isWanted || history.rule->isGradient);
  if (params_.slots == SlotChoice::sequence && !isNamed) return nullptr;
  if (cinch::decide(params_, facts_, signature, history) != Reason::none) return nullptr;
  const auto codecAt = [&](const Place& place) {
    return codingOf(params_, signature.kind, place, 0, history.rule).codec.format.id;
  };
  const auto index = signatures_.find(signature);
  const uint8_t placed = codecAt(history.place), unplaced = codecAt({});
  for (const auto& [key, slot] : slotByKey_) {
    const bool isCoded = key.codecId == placed || key.codecId == unplaced;
    if (index == key.signatureIndex && key.place == 0 && isCoded &&
        slot->phase == SlotPhase::active)
      return slot;
  }
  return nullptr;
}

// Null where a plan is replayed that has no such slot.
Slot* CommState::slotOf(uint32_t signatureIndex, const Signature& signature, const Place& place,
                        const Coding& coding) {
  const bool isPlaced = place.kind == Place::Kind::known && coding.rule.gain > 0;
  const SlotKey key{signatureIndex, coding.codec.format.id, isPlaced ? place.slot + 1 : 0};
  auto found = slotByKey_.find(key);
  if (found == slotByKey_.end()) {
    if (!decisions.plan().knows(identityOf(signature, key.codecId, key.place))) return nullptr;
    found = slotByKey_.emplace(key, &makeSlot(signature, coding, key)).first;
  }
  Slot* const slot = found->second;
  if (isPlaced) slot->residuals.enterEpoch(place.epoch);
  return slot;
}

std::unique_ptr<Checkup> CommState::makeCheckup(const CollectivePlan& plan, const Coding& coding,
                                                uint64_t identity) const {
  // Of AllReduce only: what other kinds send is near lossless.
  if (params_.guardEvery == 0 || plan.kind != CallKind::allReduce) return nullptr;
  auto checkup = std::make_unique<Checkup>();
  checkup->schedule =
      scheduleOf(static_cast<uint64_t>(params_.guardEvery), identity, coding.isAdaptive);
  if (rank != 0) return checkup;
  const uint64_t count = plan.bucketElems();
  const wire::ShardLayout largest = plan.largestLayout();
  checkup->adviser.emplace(
      Adviser::Facts{
          .slot = identity,
          .count = count,
          .type = plan.type,
          .nRanks = static_cast<uint32_t>(nRanks),
          .nChunks = plan.nChunks(),
          .nLanes = plan.hosts ? plan.hosts->nLanes() : 1,
          .nHosts = plan.hosts ? plan.hosts->nHosts : 0,
          .isPair = plan.isPair,
          .factor = plan.factor,
          .rule = coding.rule,
          .roomBytes = roomFor(largest.count, largest.nShards, largest.codec, largest.nChunks)},
      Precision{&coding.codec, coding.isAdaptive, segmentsOf(count, {}, longestSegment(count))});
  return checkup;
}

// From what is the same on all ranks: not from the slots, of which one that has simulated a group
// may have more. A threshold is of use where it tells some calls from others.
Selector::Options CommState::selectorOptions() const {
  constexpr std::array<uint64_t, 2> kThresholds = {1 << 20, 8 << 20};
  Selector::Options options{.seed = selections.seed,
                            .hasStateless = hasStatelessCalls(params_),
                            .hasResiduals = mayHaveFeedback(params_)};
  const TrainingStep step = steps_.sequence().step();
  for (size_t i = 0; i < kThresholds.size(); ++i) {
    bool hasBelow = false, hasOthers = false;
    for (const TrainingStep::Call& call : step.calls) {
      const bool isOfShards = call.signature.kind == CallKind::reduceScatter;
      const uint64_t values =
          call.signature.count * (isOfShards ? static_cast<uint64_t>(nRanks) : 1);
      const bool isBelow = values * bytesOf(call.signature.dataType) < kThresholds[i];
      if (call.isReduction) (isBelow ? hasBelow : hasOthers) = true;
    }
    if (hasBelow && hasOthers) options.thresholds[i] = kThresholds[i];
  }
  return options;
}

// Of `count` values among so many ranks. The ranks agree on all that this depends on.
Cut CommState::cutOf(uint64_t count, size_t nParts) const {
  Cut cut{.mayPair = params_.pair == PairChoice::automatic};
  if (params_.chunks > 0) {
    cut.nChunks = static_cast<uint32_t>(params_.chunks);
  } else if (!hasOneDeviceQueue()) {
    const size_t nShards = cut.mayPair && nParts == 2 ? 1 : nParts;
    cut.nChunks = chunksOf(count, static_cast<uint32_t>(nShards), resources.device->chunkValues);
  }
  return cut;
}

// Null where the ranks of a host have nothing to do for each other.
std::shared_ptr<const HostPlan> CommState::hostPlanOf(const Signature& signature) const {
  if (!sumsInHosts(params_, signature) || !mayHaveLanes(hosts_)) return nullptr;
  return std::make_shared<const HostPlan>(
      planHosts(hosts_, rank, signature.count, elementTypeOf(signature.dataType)));
}

Slot& CommState::makeSlot(const Signature& signature, const Coding& coding, const SlotKey& key) {
  const ElementType type = elementTypeOf(signature.dataType);
  const auto hosts = hostPlanOf(signature);
  const Cut cut = hosts ? cutOf(hosts->parts.shardElems(0), hosts->nHosts)
                        : cutOf(signature.count, static_cast<size_t>(nRanks));
  const auto planOf = [&](wire::CodecFormat codec, Cut by) {
    if (hosts) return planLane(signature, type, codec, hosts, by);
    return planCollective(signature, type, codec, static_cast<uint32_t>(rank),
                          static_cast<uint32_t>(nRanks), by);
  };
  const CollectivePlan plan = planOf(coding.codec.format, cut);
  const uint64_t identity = identityOf(signature, key.codecId, key.place);
  std::string name = describe(signature);
  if (key.place != 0) name += " at " + std::to_string(key.place - 1);
  slots_.push_back(std::make_unique<Slot>(identity, name, plan, coding.rule,
                                          makeCheckup(plan, coding, identity)));
  Slot& slot = *slots_.back();
  if (slot.checkup != nullptr && key.place != 0) slot.checkup->place = key.place - 1;
  if (plan.nChunks() > 1) slot.wholePlan = planOf(coding.codec.format, {1, cut.mayPair});
  slot.stats = &stats_->addSlot(slot.name, coding.name(), coding.rule.gain);
  slot.residuals.figure = &slot.stats->residualBytes;
  if (selections.isOn && coding.isAdaptive)
    slot.statelessPlan = planOf(statelessCodec().format, cut);
  return slot;
}

void CommState::activate(Slot& slot) {
  slot.phase = SlotPhase::active;
  stats_->workspaceBytes.store(workspace.bytes(), std::memory_order_relaxed);
  decisions.setActive();
  decisions.plan().noteSlot(slot.identity, slot.name);
  CINCH_INFO("POLICY", "%s: compressed from here on", slot.name.c_str());
  if (!selections.isOn) resumeResiduals();
}

void CommState::resumeResiduals() {
  const auto areHeld = [](const auto& slot) { return slot->residuals.areHeld(); };
  if (params_.residualDir.empty() || residualStore_ || std::ranges::none_of(slots_, areHeld))
    return;
  const ResidualOwner owner{static_cast<uint32_t>(nRanks), static_cast<uint32_t>(rank)};
  residualStore_ = std::make_unique<ResidualStore>(params_.residualDir, owner, name);
  const RelaxedCapture relaxed(*resources.device);
  const CurrentDevice current(*resources.device, resources.cudaDevice);
  residualStore_->load(*resources.device, slots_);
}

void CommState::noteOutcome(const Signature& signature, Reason reason) {
  if (rank != 0 || !facts_.agreed) return;
  if (reason == Reason::none) return steps_.notice.compressed();
  const auto warn = [&](const std::string& text) {
    if (!text.empty()) CINCH_WARN("POLICY", "%s: %s", name.c_str(), text.c_str());
  };
  if (reason == Reason::gathered) return warn(steps_.notice.gathered(*stats_));
  if (steps_.notice.isQuiet()) return;
  // Of what would be compressed if it were known to be a gradient.
  const Reason inEnd = cinch::decide(params_, facts_, signature, inTheEnd(signature));
  const auto index = signatures_.find(signature);
  if (inEnd != Reason::none || !index) return;
  warn(steps_.notice.passed(signature, *index, steps_.sequence().timesPerPeriod(*index), reason));
}

void CommState::countPass(Reason reason, uint64_t nBytes) {
  if (stats_ == nullptr) return countOther(nBytes);
  const auto index = static_cast<size_t>(reason);
  stats_->passedCalls[index].fetch_add(1, std::memory_order_relaxed);
  stats_->passedBytes[index].fetch_add(nBytes, std::memory_order_relaxed);
}

ncclResult_t CommState::fail(const Error& error) {
  int expected = ncclSuccess;
  const int status =
      error.status == Status::ok ? ncclInternalError : static_cast<int>(error.status);
  if (failed_.compare_exchange_strong(expected, status)) {
    // The others must not wait for words of this rank.
    if (agreement_) agreement_->close();
    CINCH_WARN("EXEC", "%s: compression failed and its result cannot be used: %s", name.c_str(),
               error.message.c_str());
  }
  return static_cast<ncclResult_t>(failed_.load());
}

void CommState::confirm() {
  steps_.commit();
  selections.commit(decisions);
  decisions.confirm();
}

// Where nothing is compressed, calls that differ are the program's and NCCL's affair.
ncclResult_t CommState::health() {
  const auto failed = static_cast<ncclResult_t>(failed_.load(std::memory_order_relaxed));
  const uint32_t* fault = fault_.load();
  if (failed != ncclSuccess || fault == nullptr) return failed;
  if (const auto difference = decisions.difference()) return fail(*difference);
  const uint32_t bits = __atomic_load_n(fault, __ATOMIC_RELAXED);
  if (bits == 0) return ncclSuccess;
  return fail(errorf(Status::remoteError,
                     "a peer's bytes were refused (%s): the ranks no longer make the same calls in "
                     "the same order",
                     faultText(bits).c_str()));
}

// What CINCH_MODE=observe is for.
void CommState::logCalls() {
  if (params_.mode != Mode::observe || stats_ == nullptr || std::exchange(logged_, true)) return;
  const std::string table = stats_->callTable();
  CINCH_INFO("POLICY", "%s: %s", name.c_str(), stats_->label.verdict.c_str());
  for (std::string_view rest = table; !rest.empty();) {
    const std::string line(takeUntil(rest, "\n"));
    CINCH_INFO("POLICY", "%s", line.c_str());
  }
}

void CommState::finish() {
  logCalls();
  if (agreement_) agreement_->close();
  decisions.plan().finish();
  if (facts_.agreed && !isAbandoned()) writeResiduals();
}

// By polling: where a rank is gone the last call never ends, and an abort from another thread must
// get through.
bool CommState::awaitLastCall() const {
  const auto deadline = Clock::now() + std::chrono::seconds(params_.voteTimeout);
  while (!workspace.isDone()) {
    ncclResult_t error = ncclSuccess;
    const bool isKnown = real.CommGetAsyncError(comm, &error) == ncclSuccess;
    const bool isWell = isKnown && (error == ncclSuccess || error == ncclInProgress);
    if (!isWell || isAbandoned() || hasFailed() || Clock::now() > deadline) return false;
    std::this_thread::sleep_for(kErrorPollTime);
  }
  return true;
}

// Once: programs call both ncclCommFinalize and ncclCommDestroy.
void CommState::writeResiduals() {
  const auto store = std::exchange(residualStore_, nullptr);
  if (params_.residualDump.empty() && !store) return;
  const RelaxedCapture relaxed(*resources.device);
  const CurrentDevice current(*resources.device, resources.cudaDevice);
  if (!awaitLastCall() || health() != ncclSuccess) {
    CINCH_WARN("EXEC", "%s: residuals not written: its calls have not ended well", name.c_str());
    return;
  }
  dumpResiduals(params_.residualDump, *resources.device, slots_);
  if (store) store->save(*resources.device, slots_);
}

void CommState::abandon() {
  int expected = ncclSuccess;
  failed_.compare_exchange_strong(expected, ncclRemoteError);
  abandoned_.store(true);
  if (agreement_) agreement_->close();
}

CommState::~CommState() {
  if (!resources.device) return;
  for (const auto& slot : slots_) slot->readMirror();
  std::vector<Buffer> buffers;
  for (const auto& slot : slots_) slot->giveUp(buffers);
  buffers.push_back(std::move(resources.fault));
  MemoryReserve& reserve = MemoryReserve::instance();
  const bool isStranded = workspace.isStranded();
  Event lastUse = workspace.giveUp(buffers);
  if (isStranded) {
    reserve.strand(std::move(buffers));
    for (const auto& slot : slots_) slot->residuals.strand();
    return;
  }
  giveResidualsBack(resources, slots_, lastUse);
  reserve.keep(resources.cudaDevice, std::move(buffers), std::move(lastUse));
}

}  // namespace cinch
