#include "interpose/comm/join.h"

#include "common/hash.h"
#include "common/host_name.h"
#include "common/log.h"
#include "common/param.h"
#include "interpose/agree/host_identity.h"
#include "interpose/comm/rule_source.h"
#include "interpose/policy/policy.h"

namespace cinch {
namespace {

const uint8_t* idBytes(const ncclUniqueId& id) {
  return reinterpret_cast<const uint8_t*>(id.internal);
}

Hello helloOf(int rank, int nRanks, std::string refusal) {
  const Result<Rules>& rules = processRules();
  if (refusal.empty() && !rules.ok()) refusal = rules.error().message;
  Hello hello;
  hello.rank = rank;
  hello.nRanks = nRanks;
  hello.settings = agreedSettings(processParams().params, rules.ok() ? rules.value() : Rules());
  hello.settingsHash = hashText(hello.settings);
  hello.hostId = hostId();
  hello.host = hostName();
  hello.refusal = std::move(refusal);
  return hello;
}

int agreeTimeout() {
  return static_cast<int>(processParams().params.agreeTimeout);
}

void announce(int rank, int nRanks, const CommResources& resources) {
  char pci[32] = "no device";
  if (resources.device != nullptr) resources.device->pciBusId(pci, sizeof pci);
  CINCH_INFO("AGREE", "rank %d of %d on host %s, device %s", rank, nRanks, hostName().c_str(), pci);
}

}  // namespace

std::unique_ptr<Joining> Joining::byId(const RealNccl& real, const ncclUniqueId& id, int rank,
                                       int nRanks) {
  if (nRanks == 1) return passing("one rank");
  if (!hasAgreementStamp(idBytes(id)))
    return passing("the process that made the communicator's id runs without Cinch");
  std::unique_ptr<Joining> joining(new Joining);
  const Hello hello = helloOf(rank, nRanks, joining->prepare(real, rank, nRanks));
  joining->accept(Agreement::greet(idBytes(id), hello, agreeTimeout()));
  return joining;
}

std::unique_ptr<Joining> Joining::byParent(const RealNccl& real, const Agreement& parent,
                                           uint64_t ordinal, int64_t part, int rank, int nRanks) {
  if (nRanks == 1) return passing("one rank");
  std::unique_ptr<Joining> joining(new Joining);
  const Hello hello = helloOf(rank, nRanks, joining->prepare(real, rank, nRanks));
  joining->accept(Agreement::greetChild(parent, ordinal, part, hello, agreeTimeout()));
  return joining;
}

std::unique_ptr<Joining> Joining::over(std::unique_ptr<Agreement> agreement,
                                       CommResources resources) {
  std::unique_ptr<Joining> joining(new Joining);
  joining->agreement_ = std::move(agreement);
  joining->resources = std::move(resources);
  return joining;
}

std::unique_ptr<Joining> Joining::passing(std::string reason) {
  std::unique_ptr<Joining> joining(new Joining);
  joining->passReason_ = std::move(reason);
  return joining;
}

std::string Joining::prepare(const RealNccl& real, int rank, int nRanks) {
  auto allocated = CommResources::allocate(real.emulator);
  if (allocated.ok()) resources = std::move(allocated.value());
  announce(rank, nRanks, resources);
  return allocated.ok() ? "" : allocated.error().message;
}

void Joining::accept(Result<std::unique_ptr<Agreement>> greeted) {
  if (greeted.ok())
    agreement_ = std::move(greeted.value());
  else
    passReason_ = greeted.error().message;
}

Verdict Joining::hearVerdict() {
  if (agreement_ == nullptr) return {false, passReason_, {}};
  auto heard = agreement_->awaitVerdict(agreeTimeout());
  return heard.ok() ? heard.value() : Verdict{false, heard.error().message, {}};
}

}  // namespace cinch
