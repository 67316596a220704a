#include "interpose/comm/join.h"

#include <atomic>
#include <map>
#include <mutex>

#include "common/hash.h"
#include "common/host_name.h"
#include "common/log.h"
#include "common/param.h"
#include "interpose/agree/host_identity.h"
#include "interpose/comm/comm_plan.h"
#include "interpose/comm/process_number.h"
#include "interpose/comm/rule_source.h"
#include "interpose/policy/policy.h"

namespace cinch {
namespace {

const uint8_t* idBytes(const ncclUniqueId& id) {
  return reinterpret_cast<const uint8_t*>(id.internal);
}

// The same name in each run of a job that makes its communicators in the same order.
std::string nextName() {
  static std::atomic<int> nMade{0};
  return processPrefix() + "comm" + std::to_string(nMade++);
}

Links askLinks(const DeviceTable& device) {
  int nNvlinks = 0;
  if (device.nvlinks(&nNvlinks) != 0) return Links::unknown;
  return nNvlinks > 0 ? Links::nvlink : Links::pcie;
}

// Asked once: it takes its time, and programs make many communicators.
Links linksOf(const DeviceTable& device, const std::string& pci) {
  static std::mutex mutex;
  // Never destroyed: communicators may be made while the process ends.
  static auto& known = *new std::map<std::string, Links>;
  const std::lock_guard lock(mutex);
  Links& links = known.emplace(pci, Links::unknown).first->second;
  if (links == Links::unknown) links = askLinks(device);
  return links;
}

void describeLinks(const CommResources& resources, Hello& hello) {
  char pci[32] = "no device";
  const DeviceTable* const device = resources.device;
  const bool isPlaced = device != nullptr && device->pciBusId(pci, sizeof pci) == 0;
  if (isPlaced && processParams().params.sameHost == SameHostChoice::automatic)
    hello.links = linksOf(*device, pci);
  if (hello.links != Links::unknown) hello.device = hashText(pci);
  static constexpr const char* kTexts[] = {"unknown", "PCIe", "NVLink"};
  CINCH_INFO("AGREE", "rank %d of %d on host %s, device %s, links: %s", hello.rank, hello.nRanks,
             hello.host.c_str(), pci, kTexts[static_cast<size_t>(hello.links)]);
}

Hello helloOf(int rank, int nRanks, const CommResources& resources, std::string refusal) {
  const Result<Rules>& rules = processRules();
  Hello hello;
  if (rank == 0) hello.communicator = nextName();
  if (refusal.empty() && !rules.ok()) refusal = rules.error().message;
  if (refusal.empty() && !processPlan().ok()) refusal = processPlan().error().message;
  hello.rank = rank;
  hello.nRanks = nRanks;
  hello.settings =
      agreedSettings(processParams().params, rules.ok() ? rules.value() : Rules(), agreedPlan());
  if (hasOneDeviceQueue()) hello.settings += " CUDA_DEVICE_MAX_CONNECTIONS=1";
  hello.settingsHash = hashText(hello.settings);
  hello.hostId = hostId();
  hello.host = hostName();
  hello.refusal = std::move(refusal);
  describeLinks(resources, hello);
  return hello;
}

const char* whyUnstamped() {
  if (areIdsFixed())
    return "NCCL_COMM_ID is set: an id is then equal in all processes and cannot say where Cinch's "
           "control channel listens; unset it, and pass the id of one process to the others";
  return "the process that made the communicator's id runs without Cinch, or with NCCL_COMM_ID set";
}

int agreeTimeout() {
  return static_cast<int>(processParams().params.agreeTimeout);
}

}  // namespace

std::unique_ptr<Joining> Joining::byId(const RealNccl& real, const ncclUniqueId& id, int rank,
                                       int nRanks) {
  if (nRanks == 1) return passing("one rank");
  if (!hasAgreementStamp(idBytes(id))) return passing(whyUnstamped());
  std::unique_ptr<Joining> joining(new Joining);
  Hello hello = joining->prepare(real, rank, nRanks);
  if (rank == 0) hello.server = offerToServe(idBytes(id), nRanks);
  joining->accept(Agreement::greet(idBytes(id), hello, agreeTimeout()));
  return joining;
}

std::unique_ptr<Joining> Joining::byParent(const RealNccl& real, const Agreement& parent,
                                           uint64_t ordinal, int64_t part, int rank, int nRanks) {
  if (nRanks == 1) return passing("one rank");
  std::unique_ptr<Joining> joining(new Joining);
  Hello hello = joining->prepare(real, rank, nRanks);
  if (rank == 0) hello.server = Agreement::offerToServe(parent, ordinal, part, nRanks);
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

Hello Joining::prepare(const RealNccl& real, int rank, int nRanks) {
  auto allocated = CommResources::allocate(real.emulator);
  if (allocated.ok()) resources = std::move(allocated.value());
  return helloOf(rank, nRanks, resources, allocated.ok() ? "" : allocated.error().message);
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
