#include "interpose/comm/comm_state.h"

#include <limits>
#include <set>
#include <utility>

#include "common/log.h"
#include "interpose/comm/memory_reserve.h"
#include "interpose/comm/report_writer.h"
#include "interpose/comm/residual_dump.h"

namespace cinch {
namespace {

const History kWellKnown{std::numeric_limits<uint32_t>::max(), {.kind = Place::Kind::known}};
constexpr uint64_t kUnknownCapture = std::numeric_limits<uint64_t>::max();

std::string faultText(uint32_t bits) {
  static constexpr const char* kNames[] = {"magic", "version", "codec", "plan", "slot", "ordinal"};
  std::string text;
  for (int bit = 0; bit < 6; ++bit)
    if (bits >> bit & 1) text += (text.empty() ? "" : ", ") + std::string(kNames[bit]);
  return text;
}

bool onSeveralHosts(const Verdict& verdict) {
  return std::set<uint64_t>(verdict.hostIds.begin(), verdict.hostIds.end()).size() > 1;
}

std::string nameOf(int rank, int nRanks) {
  static std::atomic<int> made{0};
  return "communicator " + std::to_string(++made) + " rank " + std::to_string(rank) + " of " +
         std::to_string(nRanks);
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
      joining_(std::move(joining)),
      agreement_(joining_->agreement()) {
  facts_.nRanks = nRanks;
}

Result<void> CommState::settle() {
  if (settled_) return refused_ ? Result<void>(*refused_) : Result<void>();
  settled_ = true;
  const Verdict verdict = joining_->hearVerdict();
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
    refused_ = error;
    return error;
  }
  CINCH_WARN("AGREE", "%s is not compressed: %s", name.c_str(), verdict.reason.c_str());
  return {};
}

void CommState::enrol(const Verdict& verdict) {
  stats_ = &processReport().addComm({.name = name,
                                     .rank = rank,
                                     .nRanks = nRanks,
                                     .verdict = verdict.compress
                                                    ? "all ranks run Cinch with the same settings"
                                                    : "pass: " + verdict.reason,
                                     .reasons = kReasonNames});
  // Kept without use, too: freeing it would wait for the device.
  resources = std::move(joining_->resources);
  if (!verdict.compress) return;
  fault_.store(resources.fault.as<uint32_t>());
  facts_.agreed = true;
  facts_.severalHosts = onSeveralHosts(verdict);
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

CommState::Decision CommState::decide(const Signature& signature, CUstream_st* stream) {
  if (const auto settled = settle(); !settled.ok() || !facts_.agreed)
    return {cinch::decide(params_, facts_, signature, {})};
  if (cinch::decide(params_, facts_, signature, kWellKnown) == Reason::none)
    if (const uint64_t captureId = captureIdOf(stream); captureId != 0)
      return decideCaptured(signature, captureId);
  const auto seen = signatures_.observe(signature);
  const Place place = placeOf(seen, signature);
  const bool isNew = !seen || seen->before == 0;
  if (place.kind == Place::Kind::unknown && (isNew || marksNewLayout(signature)))
    for (const auto& slot : slots_) slot->dropResiduals();
  if (!seen) return {Reason::manyKinds, nullptr, true};
  const Reason reason = cinch::decide(params_, facts_, signature, {seen->before, place});
  Slot* slot = reason == Reason::none ? &slotOf(seen->index, signature, place) : nullptr;
  return {reason, slot, true};
}

void CommState::takeBack(const Signature& signature) {
  signatures_.takeBack(signature);
  sequence_.takeBack();
}

// Where the signature alone is the slot, nothing is learned.
Place CommState::placeOf(const std::optional<SignatureTable::Seen>& seen,
                         const Signature& signature) {
  if (params_.slots != SlotChoice::sequence) return {};
  if (!seen) return sequence_.observeUnknown();
  return sequence_.observe(signature, seen->index, isLarge(params_, facts_, signature));
}

// A capture is collective, NCCL wants it on all ranks or on none; but never may a host wait in it.
CommState::Decision CommState::decideCaptured(const Signature& signature, uint64_t captureId) {
  if (captureId == kUnknownCapture) return {Reason::capturing};
  auto first = captured_.find(signature);
  if (first == captured_.end() && captured_.size() < SignatureTable::kMaxSignatures)
    first = captured_.emplace(signature, readySlot(signature)).first;
  if (first == captured_.end() || first->second == nullptr) return {Reason::capturing};
  return {Reason::none, first->second, false, captureId};
}

// A captured call has no place in the sequence, and can have no slot that has one.
Slot* CommState::readySlot(const Signature& signature) const {
  const auto index = signatures_.find(signature);
  for (const auto& [key, slot] : slotByKey_)
    if (index == key.signatureIndex && key.place == 0 && slot->phase == SlotPhase::active)
      return slot;
  return nullptr;
}

Slot& CommState::slotOf(uint32_t signatureIndex, const Signature& signature, const Place& place) {
  const Coding coding = codingOf(params_, signature.kind, place, static_cast<uint32_t>(rank));
  const bool isPlaced = place.kind == Place::Kind::known && coding.rule.gain > 0;
  const SlotKey key{signatureIndex, coding.codec.format.id, isPlaced ? place.slot + 1 : 0};
  Slot*& slot = slotByKey_[key];
  if (slot == nullptr) slot = &makeSlot(signature, coding, key);
  if (isPlaced) slot->enterEpoch(place.epoch);
  return *slot;
}

Slot& CommState::makeSlot(const Signature& signature, const Coding& coding, const SlotKey& key) {
  const CollectivePlan plan =
      planCollective(signature, elementTypeOf(signature.dataType), coding.codec.format,
                     static_cast<uint32_t>(rank), static_cast<uint32_t>(nRanks));
  std::string name = describe(signature);
  if (key.place != 0) name += " at " + std::to_string(key.place - 1);
  slots_.push_back(std::make_unique<Slot>(identityOf(signature, key.codecId, key.place), name, plan,
                                          coding.rule));
  Slot& slot = *slots_.back();
  slot.stats = &stats_->addSlot(slot.name, coding.codec.name, coding.rule.gain);
  return slot;
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
  if (failed_.compare_exchange_strong(expected, status))
    CINCH_WARN("EXEC", "%s: compression failed and its result cannot be used: %s", name.c_str(),
               error.message.c_str());
  return static_cast<ncclResult_t>(failed_.load());
}

ncclResult_t CommState::health() {
  const auto failed = static_cast<ncclResult_t>(failed_.load(std::memory_order_relaxed));
  const uint32_t* fault = fault_.load();
  if (failed != ncclSuccess || fault == nullptr) return failed;
  const uint32_t bits = __atomic_load_n(fault, __ATOMIC_RELAXED);
  if (bits == 0) return ncclSuccess;
  return fail(errorf(Status::remoteError,
                     "a peer's bytes were refused (%s): the ranks no longer make the same calls in "
                     "the same order",
                     faultText(bits).c_str()));
}

void CommState::expect(ncclComm_t* handle, int64_t kind, int64_t part) {
  const std::lock_guard lock(birthsMutex_);
  births_.push_back({handle, nChildren_[kind]++, part});
}

void CommState::finish() {
  if (agreement_) agreement_->close();
  if (!facts_.agreed || abandoned_.load()) return;
  if (params_.residualDump.empty()) return;
  const RelaxedCapture relaxed(*resources.device);
  const CurrentDevice current(*resources.device, resources.cudaDevice);
  if (workspace.drain(*resources.device).ok())
    dumpResiduals(params_.residualDump, *resources.device, slots_);
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
  if (isStranded)
    reserve.strand(std::move(buffers));
  else
    reserve.keep(resources.cudaDevice, std::move(buffers), std::move(lastUse));
}

}  // namespace cinch
