#include "emulator/nccl/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>
#include <unordered_map>

#include "common/param.h"
#include "emulator/nccl/debug.h"

namespace cinch::emulator {
namespace {

constexpr auto kConnectPause = std::chrono::microseconds(200);

// What a rank tells the others of itself; its connection handles follow.
struct Introduction {
  int32_t rank;
  int32_t nRanks;
  uint64_t hostHash;
};

uint64_t fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3ull;
  return hash;
}

// Equal for processes that NCCL would take to be on one host.
uint64_t hostHash() {
  const char* given = environmentVariable("NCCL_HOSTID");
  if (given != nullptr && *given != '\0') return fnv1a(given);
  std::string bootId;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> bootId;
  return fnv1a(expandPath("%h") + bootId);
}

std::string busId(int device) {
  char text[32] = "?";
  cudaDeviceGetPCIBusId(text, sizeof text, device);
  return text;
}

struct Registry {
  std::mutex mutex;
  std::unordered_map<ncclComm_t, std::shared_ptr<Communicator>> communicators;
};

// Never destroyed: a process may exit while communicators work.
Registry& registry() {
  static Registry* registry = new Registry;
  return *registry;
}

}  // namespace

Result<void> Communicator::initialise(const UniqueId& id) {
  setDebugDevice(settings_.device);
  CINCH_TRY(startNamedRoot(id, rank()));
  auto connections =
      Connections::listen(socketTransport(), id.nonce, settings_.trafficClass, rank(), nRanks());
  if (!connections) return connections.error();
  connections_ = std::move(connections.value());
  logInfo("Using network %s", socketTransport().name);
  logLine(id, "Init START");

  Result<Bootstrap> bootstrap = Bootstrap::join(id, rank(), nRanks());
  if (!bootstrap) return bootstrap.error();
  const Result<std::vector<char>> all = bootstrap.value().exchange(introduction());
  if (!all) return all.error();
  CINCH_TRY(readTable(all.value()));
  CINCH_TRY(connectRing(bootstrap.value()));
  // All ranks are connected before any goes on: none can be missed later without being noticed.
  const Result<std::vector<char>> allConnected = bootstrap.value().exchange({});
  if (!allConnected) return allConnected.error();

  progress_ = std::make_unique<ProgressThread>(*connections_, settings_.device);
  logLine(id, "Init COMPLETE");
  return {};
}

std::vector<char> Communicator::introduction() const {
  const Introduction mine{rank(), nRanks(), hostHash()};
  const std::vector<char>& handles = connections_->handles();
  std::vector<char> bytes(sizeof mine + handles.size());
  memcpy(bytes.data(), &mine, sizeof mine);
  std::copy(handles.begin(), handles.end(), bytes.begin() + sizeof mine);
  return bytes;
}

Result<void> Communicator::readTable(const std::vector<char>& all) {
  const size_t nHandleBytes = connections_->handles().size();
  const size_t perRank = sizeof(Introduction) + nHandleBytes;
  if (all.size() != perRank * nRanks()) {
    return errorf(Status::internalError, "bootstrap: the ranks' data is %zu bytes instead of %zu",
                  all.size(), perRank * nRanks());
  }
  std::set<uint64_t> hosts;
  std::vector<char> handles;
  for (auto entry = all.begin(); entry != all.end(); entry += perRank) {
    Introduction other;
    memcpy(&other, &*entry, sizeof other);
    hosts.insert(other.hostHash);
    handles.insert(handles.end(), entry + sizeof other, entry + perRank);
  }
  connections_->setTable(std::move(handles));
  logInfo("comm %p rank %d nRanks %d nNodes %zu", static_cast<const void*>(this), rank(), nRanks(),
          hosts.size());
  return {};
}

Result<void> Communicator::connectRing(Bootstrap& bootstrap) {
  while (true) {
    const Result<bool> connected = connections_->connectRing();
    if (!connected) return connected.error();
    if (connected.value()) return {};
    CINCH_TRY(bootstrap.check());
    std::this_thread::sleep_for(kConnectPause);
  }
}

void Communicator::logLine(const UniqueId& id, const char* what) const {
  logInfo(
      "ncclCommInitRank comm %p rank %d nranks %d cudaDev %d busId %s commId 0x%llx"
      "%s%s - %s",
      static_cast<const void*>(this), rank(), nRanks(), device(), busId(device()).c_str(),
      static_cast<unsigned long long>(id.nonce), settings_.name.empty() ? "" : " name ",
      settings_.name.c_str(), what);
}

Result<void> Communicator::launch(std::vector<Operation> operations,
                                  std::vector<cudaStream_t> streams) {
  const auto plan =
      std::make_shared<Plan>(std::move(operations), std::move(streams), progress_->wakeup());
  CINCH_TRY(progress_->submit(plan));
  const Result<void> enqueued = Plan::enqueue(plan);
  // Some streams may hold the plan already: it can neither run nor be taken back.
  if (!enqueued) progress_->fail(enqueued.error());
  return enqueued;
}

void Communicator::flush() {
  if (isReady()) progress_->flush();
}

void Communicator::abort() {
  if (isReady()) progress_->stop();
}

ncclResult_t Communicator::asyncError() const {
  return isReady() ? progress_->error() : ncclSuccess;
}

ncclComm_t enlist(std::shared_ptr<Communicator> communicator) {
  const auto handle = reinterpret_cast<ncclComm_t>(communicator.get());
  std::lock_guard lock(registry().mutex);
  registry().communicators[handle] = std::move(communicator);
  return handle;
}

std::shared_ptr<Communicator> find(ncclComm_t handle) {
  std::lock_guard lock(registry().mutex);
  const auto found = registry().communicators.find(handle);
  return found == registry().communicators.end() ? nullptr : found->second;
}

void forget(ncclComm_t handle) {
  std::shared_ptr<Communicator> last;  // destroyed after the lock is released
  std::lock_guard lock(registry().mutex);
  const auto found = registry().communicators.find(handle);
  if (found == registry().communicators.end()) return;
  last = std::move(found->second);
  registry().communicators.erase(found);
}

}  // namespace cinch::emulator
