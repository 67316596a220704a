#include "interpose/comm/join.h"

#include <atomic>
#include <set>

#include "common/hash.h"
#include "common/host_name.h"
#include "common/log.h"
#include "interpose/agree/host_identity.h"
#include "interpose/comm/report_writer.h"

namespace cinch {
namespace {

const uint8_t* idBytes(const ncclUniqueId& id) {
  return reinterpret_cast<const uint8_t*>(id.internal);
}

Hello helloOf(int rank, int nRanks, std::string refusal) {
  Hello hello;
  hello.rank = rank;
  hello.nRanks = nRanks;
  hello.settings = agreedSettings(processParams().params);
  hello.settingsHash = hashText(hello.settings);
  hello.hostId = hostId();
  hello.host = hostName();
  hello.process = processId();
  hello.refusal = std::move(refusal);
  return hello;
}

void announce(int rank, int nRanks, const CommResources& resources) {
  char pci[32] = "no device";
  if (resources.device != nullptr) resources.device->pciBusId(pci, sizeof pci);
  CINCH_INFO("AGREE", "rank %d of %d on host %s, device %s", rank, nRanks, hostName().c_str(), pci);
}

bool onSeveralHosts(const Verdict& verdict) {
  return std::set<uint64_t>(verdict.hostIds.begin(), verdict.hostIds.end()).size() > 1;
}

CommStats& newStats(int rank, int nRanks, const Verdict& verdict) {
  static std::atomic<int> made{0};
  return processReport().addComm({.name = "communicator " + std::to_string(++made) + " rank " +
                                          std::to_string(rank) + " of " + std::to_string(nRanks),
                                  .rank = rank,
                                  .nRanks = nRanks,
                                  .verdict = verdict.compress
                                                 ? "all ranks run Cinch with the same settings"
                                                 : "pass: " + verdict.reason,
                                  .reasons = kReasonNames});
}

}  // namespace

Joining::Joining(const RealNccl& real, const ncclUniqueId& id, int rank, int nRanks,
                 std::string refusal)
    : real_(real), rank_(rank), nRanks_(nRanks) {
  if (nRanks == 1)
    passReason_ = "one rank";
  else if (!hasAgreementStamp(idBytes(id)))
    passReason_ = "the process that made the communicator's id runs without Cinch";
  else
    greet(id, std::move(refusal));
}

void Joining::greet(const ncclUniqueId& id, std::string refusal) {
  if (refusal.empty()) {
    auto resources = CommResources::allocate(real_.emulator);
    if (resources.ok())
      resources_ = std::move(resources.value());
    else
      refusal = resources.error().message;
  }
  announce(rank_, nRanks_, resources_);
  const auto timeout = static_cast<int>(processParams().params.agreeTimeout);
  auto greeted = Agreement::greet(idBytes(id), helloOf(rank_, nRanks_, refusal), timeout);
  if (greeted.ok())
    agreement_ = std::move(greeted.value());
  else
    passReason_ = greeted.error().message;
}

Result<Verdict> Joining::verdict() {
  if (!passReason_.empty()) return Verdict{false, passReason_, {}};
  return agreement_->awaitVerdict(static_cast<int>(processParams().params.agreeTimeout));
}

Result<std::shared_ptr<CommState>> Joining::complete(ncclComm_t comm) {
  auto heard = verdict();
  const Verdict verdict = heard.ok() ? heard.value() : Verdict{false, heard.error().message, {}};
  CommStats& stats = newStats(rank_, nRanks_, verdict);
  auto state = std::make_shared<CommState>(real_, comm, rank_, nRanks_, stats);
  if (verdict.compress) {
    state->enable(std::move(resources_), std::move(agreement_), onSeveralHosts(verdict));
    CINCH_INFO("AGREE", "%s: %s", stats.label.name.c_str(), stats.label.verdict.c_str());
    return state;
  }
  if (nRanks_ == 1) return state;
  if (processParams().params.strict)
    return errorf(Status::invalidUsage, "CINCH_STRICT: %s", verdict.reason.c_str());
  CINCH_WARN("AGREE", "%s is not compressed: %s", stats.label.name.c_str(), verdict.reason.c_str());
  return state;
}

}  // namespace cinch
