#include "emulator/nccl/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>

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
  Address maternity;
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

uint64_t mixed(uint64_t nonce, uint64_t value) {
  uint64_t x = nonce ^ (value + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  return x ^ x >> 27;
}

}  // namespace

Result<void> Communicator::initialise(const UniqueId& id) {
  setDebugDevice(settings_.device);
  CINCH_TRY(startNamedRoot(id, rank()));
  Result<Bootstrap> bootstrap = Bootstrap::join(id, rank(), nRanks(), cancellation_);
  if (!bootstrap) return bootstrap.error();
  return connect(bootstrap.value(), id.nonce);
}

Result<void> Communicator::connect(Bootstrap& bootstrap, uint64_t nonce) {
  nonce_ = nonce;
  Result<Network> network =
      processNetworks().choose(wantedNetwork(settings_.netName), nonce, settings_.trafficClass);
  if (!network) return network.error();
  auto connections =
      Connections::listen(std::move(network.value()), rank(), nRanks(), settings_.device);
  if (!connections) return connections.error();
  connections_ = std::move(connections.value());
  auto maternity = Maternity::open();
  if (!maternity) return maternity.error();
  maternity_ = std::move(maternity.value());
  if (const cudaError_t error = order_.prepare(); error != cudaSuccess) {
    return errorf(Status::cudaError, "cannot create an event: %s", cudaGetErrorString(error));
  }
  logInfo("Using network %s", connections_->networkName());
  logLine(nonce, "Init START");

  const Result<Shares> all = bootstrap.exchange(introduction());
  if (!all) return all.error();
  CINCH_TRY(readTable(all.value()));
  CINCH_TRY(connectRing(bootstrap));
  // All ranks are connected before any goes on: none can be missed later without being noticed.
  const Result<Shares> allConnected = bootstrap.exchange({});
  if (!allConnected) return allConnected.error();

  progress_ = std::make_unique<ProgressThread>(*connections_, settings_.device);
  connected_.store(true);
  logLine(nonce, "Init COMPLETE");
  return {};
}

std::vector<char> Communicator::introduction() const {
  const Introduction mine{rank(), nRanks(), hostHash(), maternity_->address()};
  const std::vector<char>& handles = connections_->handles();
  std::vector<char> bytes(sizeof mine + handles.size());
  memcpy(bytes.data(), &mine, sizeof mine);
  std::copy(handles.begin(), handles.end(), bytes.begin() + sizeof mine);
  return bytes;
}

Result<void> Communicator::readTable(const Shares& shares) {
  const size_t perRank = sizeof(Introduction) + connections_->handles().size();
  std::set<uint64_t> hosts;
  std::vector<char> handles;
  for (const std::vector<char>& share : shares) {
    if (share.size() != perRank) {
      return errorf(Status::internalError, "bootstrap: a rank's data is %zu bytes instead of %zu",
                    share.size(), perRank);
    }
    Introduction other;
    memcpy(&other, share.data(), sizeof other);
    hosts.insert(other.hostHash);
    maternities_.push_back(other.maternity);
    handles.insert(handles.end(), share.begin() + sizeof other, share.end());
  }
  connections_->setTable(handles);
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

uint64_t Communicator::nextSplitNonce() {
  return mixed(nonce_, nSplits_.fetch_add(1));
}

uint64_t Communicator::shrinkNonce(const std::vector<int>& remaining) const {
  uint64_t nonce = ~nonce_;
  for (const int rank : remaining) nonce = mixed(nonce, static_cast<uint64_t>(rank));
  return nonce;
}

Result<std::shared_ptr<Communicator>> Communicator::makeChild(const ChildRequest& request) {
  setDebugDevice(device());
  Result<Bootstrap> bootstrap = meetParticipants(request);
  if (!bootstrap) return bootstrap.error();
  const Result<std::vector<int>> members = choose(bootstrap.value(), request);
  if (!members) return members.error();
  if (request.choice.colour == NCCL_SPLIT_NOCOLOR) {
    for (int round = 0; round < kBootstrapRounds; ++round) {
      const Result<Shares> others = bootstrap.value().exchange({});
      if (!others) return others.error();
    }
    return std::shared_ptr<Communicator>();
  }
  CommunicatorSettings settings = request.settings;
  const auto& ranks = members.value();
  const auto own = std::find_if(ranks.begin(), ranks.end(), [&](int member) {
    return request.participants[static_cast<size_t>(member)] == rank();
  });
  settings.rank = static_cast<int>(own - ranks.begin());
  settings.nRanks = static_cast<int>(ranks.size());
  auto child = std::make_shared<Communicator>(std::move(settings));
  bootstrap.value().restrictTo(ranks);
  CINCH_TRY(child->connect(bootstrap.value(),
                           mixed(request.nonce, static_cast<uint64_t>(request.choice.colour))));
  child->state_.store(ncclSuccess);
  return child;
}

Result<Bootstrap> Communicator::meetParticipants(const ChildRequest& request) {
  const std::vector<int>& ranks = request.participants;
  const int host = ranks.front();
  if (host == rank()) CINCH_TRY(maternity_->host(request.nonce));
  UniqueId id;
  id.nonce = request.nonce;
  id.root = maternities_[static_cast<size_t>(host)];
  const auto place = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
  return Bootstrap::join(id, static_cast<int>(place), static_cast<int>(ranks.size()),
                         cancellation_);
}

// The members of this rank's child, as places among the participants.
Result<std::vector<int>> Communicator::choose(Bootstrap& bootstrap,
                                              const ChildRequest& request) const {
  const auto* raw = reinterpret_cast<const char*>(&request.choice);
  const Result<Shares> shares = bootstrap.exchange({raw, raw + sizeof request.choice});
  if (!shares) return shares.error();
  std::vector<Choice> choices;
  for (const std::vector<char>& share : shares.value()) {
    if (share.size() != sizeof(Choice)) {
      return errorf(Status::internalError, "bootstrap: a rank's choice is %zu bytes", share.size());
    }
    memcpy(&choices.emplace_back(), share.data(), sizeof(Choice));
  }
  return membersOf(choices, request.choice.colour);
}

void Communicator::logLine(uint64_t nonce, const char* what) const {
  logInfo(
      "ncclCommInitRank comm %p rank %d nranks %d cudaDev %d busId %s commId 0x%llx"
      "%s%s - %s",
      static_cast<const void*>(this), rank(), nRanks(), device(), busId(device()).c_str(),
      static_cast<unsigned long long>(nonce), settings_.name.empty() ? "" : " name ",
      settings_.name.c_str(), what);
}

void Communicator::beginWork() {
  nWorks_.fetch_add(1);
  if (!settings_.blocking) state_.store(ncclInProgress);
}

void Communicator::endWork(const Result<void>& result) {
  const bool isSetUp = state_.load() == ncclInProgress;
  if (isSetUp)
    state_.store(result ? ncclSuccess : static_cast<ncclResult_t>(result.error().status));
  nWorks_.fetch_sub(1);
  nWorks_.notify_all();
}

ncclResult_t Communicator::state() const {
  const ncclResult_t state = state_.load();
  return state == ncclSuccess ? progress_->error() : state;
}

Result<void> Communicator::checkReady(const char* function) const {
  const ncclResult_t now = state();
  if (now == ncclSuccess) return {};
  if (now == ncclInProgress) {
    return errorf(Status::invalidArgument,
                  "%s: comm still works on an earlier call: wait until ncclCommGetAsyncError gives "
                  "ncclSuccess",
                  function);
  }
  return errorf(static_cast<Status>(now), "%s: comm failed before", function);
}

Result<void> Communicator::checkOpen(const char* function) const {
  if (!revoked_.load() && !finalized_.load()) return {};
  return errorf(Status::invalidUsage, "%s: comm was %s", function,
                revoked_.load() ? "revoked" : "finalized");
}

void Communicator::beginToConnect(const std::vector<Operation>& operations) {
  for (const Operation& operation : operations) {
    if (isPointToPoint(operation.kind)) connections_->channelOf(operation);
  }
}

bool Communicator::isConnecting(const std::vector<Operation>& operations) {
  return std::ranges::any_of(operations, [&](const Operation& operation) {
    return isPointToPoint(operation.kind) &&
           Connections::isOpening(connections_->channelOf(operation));
  });
}

void Communicator::flush() {
  if (progress() != nullptr) progress()->flush();
}

bool Communicator::revoke() {
  if (revoked_.exchange(true)) return false;
  stop();
  return true;
}

void Communicator::stop() {
  if (progress() != nullptr) progress()->stop();
}

void Communicator::abort() {
  cancellation_.cancel();
  stop();
  for (int left = nWorks_.load(); left != 0; left = nWorks_.load()) nWorks_.wait(left);
  stop();  // what the last work may have started
}

}  // namespace cinch::emulator
