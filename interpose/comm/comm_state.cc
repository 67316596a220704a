#include "interpose/comm/comm_state.h"

#include "common/log.h"
#include "interpose/comm/residual_dump.h"
#include "interpose/real/codec_library.h"

namespace cinch {
namespace {

std::string faultText(uint32_t bits) {
  static constexpr const char* kNames[] = {"magic", "version", "codec", "plan", "slot", "ordinal"};
  std::string text;
  for (int bit = 0; bit < 6; ++bit)
    if (bits >> bit & 1) text += (text.empty() ? "" : ", ") + std::string(kNames[bit]);
  return text;
}

}  // namespace

Result<CommResources> CommResources::allocate(bool emulator) {
  auto library = loadCodecLibrary(emulator);
  if (!library.ok()) return library.error();
  CommResources resources;
  resources.device = library.value();
  const DeviceTable& device = *resources.device;
  const RelaxedCapture relaxed(device);
  CINCH_TRY_DEVICE(device, device.getDevice(&resources.cudaDevice), "no current device");
  auto fault = Buffer::allocate(device, sizeof(uint32_t), Buffer::Where::host);
  if (!fault.ok()) return fault.error();
  resources.fault = std::move(fault.value());
  *resources.fault.as<uint32_t>() = 0;
  return resources;
}

CommState::CommState(const RealNccl& real, ncclComm_t comm, int rank, int nRanks, CommStats& stats)
    : real(real),
      comm(comm),
      rank(rank),
      nRanks(nRanks),
      stats(stats),
      params_(processParams().params) {
  facts_.nRanks = nRanks;
}

void CommState::enable(CommResources ready, std::unique_ptr<Agreement> agreement,
                       bool severalHosts) {
  resources = std::move(ready);
  agreement_ = std::move(agreement);
  facts_.agreed = true;
  facts_.severalHosts = severalHosts;
}

CommState::Decision CommState::decide(const Signature& signature) {
  if (!facts_.agreed) return {cinch::decide(params_, facts_, signature, 0), nullptr};
  const auto seen = signatures_.observe(signature);
  const bool isNew = !seen || seen->before == 0;
  if (isNew || marksNewLayout(signature))
    for (const auto& slot : slots_) slot->dropResiduals();
  if (!seen) return {Reason::manyKinds, nullptr};
  const Reason reason = cinch::decide(params_, facts_, signature, seen->before);
  return {reason, reason == Reason::none ? &slotOf(seen->index, signature) : nullptr};
}

Slot& CommState::slotOf(uint32_t signatureIndex, const Signature& signature) {
  if (signatureIndex >= slotBySignature_.size()) slotBySignature_.resize(signatureIndex + 1);
  Slot*& slot = slotBySignature_[signatureIndex];
  if (slot != nullptr) return *slot;
  const wire::Codec codec = codecOf(params_.codec);
  const AllReducePlan plan = planAllReduce(
      signature.count, elementTypeOf(signature.dataType), codec, signature.op == OpClass::avg,
      static_cast<uint32_t>(rank), static_cast<uint32_t>(nRanks));
  const float gain = errorFeedbackGain(params_, wire::bitsOf(codec));
  slots_.push_back(std::make_unique<Slot>(static_cast<uint32_t>(slots_.size()), describe(signature),
                                          plan, gain));
  slot = slots_.back().get();
  slot->stats = &stats.addSlot(slot->name, "q" + std::to_string(wire::bitsOf(codec)), gain);
  return *slot;
}

void CommState::countPass(Reason reason, uint64_t nBytes) {
  const auto index = static_cast<size_t>(reason);
  stats.passedCalls[index].fetch_add(1, std::memory_order_relaxed);
  stats.passedBytes[index].fetch_add(nBytes, std::memory_order_relaxed);
}

ncclResult_t CommState::fail(const Error& error) {
  int expected = ncclSuccess;
  const int status =
      error.status == Status::ok ? ncclInternalError : static_cast<int>(error.status);
  if (failed_.compare_exchange_strong(expected, status))
    CINCH_WARN("EXEC", "%s: compression failed and its result cannot be used: %s",
               stats.label.name.c_str(), error.message.c_str());
  return static_cast<ncclResult_t>(failed_.load());
}

ncclResult_t CommState::health() {
  const auto failed = static_cast<ncclResult_t>(failed_.load(std::memory_order_relaxed));
  if (failed != ncclSuccess || !resources.fault) return failed;
  const uint32_t bits = __atomic_load_n(resources.fault.as<uint32_t>(), __ATOMIC_RELAXED);
  if (bits == 0) return ncclSuccess;
  return fail(errorf(Status::remoteError,
                     "a peer's bytes were refused (%s): the ranks no longer make the same calls in "
                     "the same order",
                     faultText(bits).c_str()));
}

void CommState::finish() {
  if (!facts_.agreed) return;
  const RelaxedCapture relaxed(*resources.device);
  const CurrentDevice current(*resources.device, resources.cudaDevice);
  if (workspace.drain(*resources.device).ok()) {
    for (const auto& slot : slots_) slot->readMirror();
    dumpResiduals(params_.residualDump, *resources.device, slots_);
  }
  agreement_->close();
}

void CommState::abandon() {
  int expected = ncclSuccess;
  failed_.compare_exchange_strong(expected, ncclRemoteError);
  abandoned_.store(true);
  if (facts_.agreed) agreement_->close();
}

CommState::~CommState() {
  if (!resources.device) return;
  const CurrentDevice current(*resources.device, resources.cudaDevice);
  if (abandoned_.load()) {
    // Freeing device memory waits for all of the device's work, and kernels of an aborted job may
    // never end: keep the memory instead.
    for (const auto& slot : slots_) slot->leak();
    workspace.leak();
    resources.fault.leak();
  }
  slots_.clear();
  workspace = Workspace();
}

}  // namespace cinch
