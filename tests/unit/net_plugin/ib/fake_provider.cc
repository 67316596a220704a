#include "fake_provider.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>

#include "fake_objects.h"

namespace cinch::net::ib {
namespace {

constexpr size_t kLine = 64;

}  // namespace

VerbsApi fakeApi();
void setCurrentProvider(FakeProvider* provider);

FakeProvider::FakeProvider(const FakeOptions& options)
    : options_(options),
      api_(fakeApi()),
      random_(options.seed),
      postFailure_(options.postFailure),
      queueFailure_(options.queueFailure) {
  for (int i = 0; i < options.nDevices; ++i) {
    auto device = std::make_unique<Device>();
    device->index = i;
    snprintf(device->name, sizeof device->name, "fake%d", i);
    devices_.push_back(std::move(device));
  }
  if (!options.relaxesOrdering) api_.regMrIova2 = nullptr;
  if (options.isOld) {
    api_.regDmabufMr = nullptr;
    api_.queryEce = api_.setEce = nullptr;
  }
  setCurrentProvider(this);
}

FakeProvider::~FakeProvider() {
  setCurrentProvider(nullptr);
}

bool FakeProvider::chance(double probability) {
  return std::uniform_real_distribution<>(0, 1)(random_) < probability;
}

bool FakeProvider::failsNow(const Pair& pair) {
  const bool isMeant = faultyDevice_ < 0 || faultyDevice_ == pair.fake->index;
  return isMeant && chance(queueFailure_);
}

size_t FakeProvider::below(size_t limit) {
  return limit == 0 ? 0 : random_() % limit;
}

void FakeProvider::step() {
  Lock lock(mutex_);
  stepLocked();
}

void FakeProvider::stepLocked() {
  std::vector<Pair*> all;
  for (const auto& [number, pair] : pairs_) all.push_back(pair.get());
  std::shuffle(all.begin(), all.end(), random_);
  for (Pair* pair : all) advance(*pair);
}

void FakeProvider::advance(Pair& pair) {
  if (pair.state == IBV_QPS_ERR) return flush(pair);
  if (pair.state != IBV_QPS_RTS || pair.sends.empty()) return;
  Work& work = pair.sends.front();
  if (work.delay-- > 0) return;
  move(pair, work);
}

void FakeProvider::flush(Pair& pair) {
  while (!pair.sends.empty()) {
    const Work work = std::move(pair.sends.front());
    pair.sends.pop_front();
    complete(pair, work, IBV_WC_WR_FLUSH_ERR);
  }
  while (!pair.receives.empty()) {
    ibv_wc completion{};
    completion.wr_id = pair.receives.front();
    completion.status = IBV_WC_WR_FLUSH_ERR;
    pair.receives.pop_front();
    push(*static_cast<Completions*>(pair.recv_cq), pair, completion, 1, false);
  }
}

// Where the other end cannot be reached: nobody says why.
FakeProvider::Pair* FakeProvider::peerOf(const Pair& pair) {
  const auto found = pairs_.find(pair.peer);
  if (found == pairs_.end() || pair.fake->isDown || pair.fake->isDead) return nullptr;
  Pair& peer = *found->second;
  const bool isReady = peer.state == IBV_QPS_RTR || peer.state == IBV_QPS_RTS;
  const ibv_gid gid = fakeGid(peer.fake->index);
  const bool isThere = memcmp(&gid, &pair.peerGid, sizeof gid) == 0;
  const bool isUp = !peer.fake->isDown && !peer.fake->isDead;
  return isReady && isThere && isUp && peer.peer == pair.qp_num ? &peer : nullptr;
}

void FakeProvider::move(Pair& pair, Work& work) {
  Pair* const peer = peerOf(pair);
  if (peer == nullptr) {
    if (++work.waited > options_.patience) fail(pair, IBV_WC_RETRY_EXC_ERR);
    return;
  }
  if (!work.isCut && failsNow(pair)) return fail(pair, IBV_WC_RETRY_EXC_ERR);
  const ibv_wc_status readFailure = pair.fake->readFailure;
  const bool isRead = work.opcode == IBV_WR_RDMA_READ;
  if (isRead && readFailure != IBV_WC_SUCCESS) return fail(pair, readFailure);
  if (!place(pair, work) || !work.toPlace.empty()) return;
  const bool announces = work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (announces && !announce(pair, *peer, work)) return;
  // The answer is lost: the peer has it, and this side does not know.
  if (failsNow(pair)) return fail(pair, IBV_WC_RETRY_EXC_ERR);
  const Work done = std::move(work);
  pair.sends.pop_front();
  complete(pair, done, IBV_WC_SUCCESS);
}

FakeProvider::Region* FakeProvider::regionOf(uint64_t address, size_t nBytes, uint32_t key,
                                             int access, const ibv_pd* domain) {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return nullptr;
  Region& region = *found->second;
  const auto begin = reinterpret_cast<uint64_t>(region.addr);
  const bool holds = address >= begin && address - begin <= region.length &&
                     nBytes <= region.length - (address - begin);
  const bool isOpen = (region.access & access) == access;
  const bool isDomain = domain == nullptr || region.pd == domain;
  return holds && isOpen && isDomain ? &region : nullptr;
}

uint32_t FakeProvider::eceKnownTo(const Device& device) const {
  const auto found = options_.ece.find(device.index);
  return found == options_.ece.end() ? 0 : found->second;
}

bool FakeProvider::isGpu(uint64_t address) const {
  return std::any_of(gpuMemory_.begin(), gpuMemory_.end(), [&](const auto& range) {
    return range.first <= address && address < range.second;
  });
}

// `device`: that of the memory's host.
void FakeProvider::land(Device& device, uint64_t address, const uint8_t* bytes, size_t nBytes) {
  if (isGpu(address)) {
    device.posted.push_back({address, {bytes, bytes + nBytes}});
  } else {
    memcpy(reinterpret_cast<void*>(address), bytes, nBytes);
  }
}

void FakeProvider::drain(Device& device) {
  for (const Device::Posted& it : std::exchange(device.posted, {})) {
    memcpy(reinterpret_cast<void*>(it.address), it.bytes.data(), it.bytes.size());
  }
}

// Moves one more piece of the data. False where the pair has failed.
bool FakeProvider::place(Pair& pair, Work& work) {
  const size_t nBytes = work.nBytes();
  const bool isRead = work.opcode == IBV_WR_RDMA_READ;
  Pair& peer = *peerOf(pair);
  const int access = isRead ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  const bool isKnown =
      nBytes == 0 || regionOf(work.remote, nBytes, work.remoteKey, access, peer.pd) != nullptr;
  if (!isKnown) {
    peer.state = IBV_QPS_ERR;
    fail(pair, IBV_WC_REM_ACCESS_ERR);
    return false;
  }
  std::vector<uint8_t> bytes = work.inlined;
  const int localAccess = isRead ? IBV_ACCESS_LOCAL_WRITE : 0;
  for (const ibv_sge& piece : work.pieces) {
    if (regionOf(piece.addr, piece.length, piece.lkey, localAccess, pair.pd) == nullptr) {
      fail(pair, IBV_WC_LOC_PROT_ERR);
      return false;
    }
    const auto* at = reinterpret_cast<const uint8_t*>(piece.addr);
    bytes.insert(bytes.end(), at, at + piece.length);
  }
  if (isRead) {
    ++pair.fake->nReads;
    if (isGpu(work.remote)) drain(*peer.fake);
    memcpy(reinterpret_cast<void*>(work.pieces.front().addr),
           reinterpret_cast<const void*>(work.remote), nBytes);
    work.isCut = true;
    return true;
  }
  if (!work.isCut) {
    work.isCut = true;
    for (size_t offset = 0; offset < nBytes;) {
      const size_t length = std::min(nBytes - offset, kLine * (1 + below(1 + nBytes / 128)));
      work.toPlace.push_back({offset, length});
      offset += length;
    }
    std::shuffle(work.toPlace.begin(), work.toPlace.end(), random_);
  }
  if (work.toPlace.empty()) return true;
  const auto [offset, length] = work.toPlace.back();
  work.toPlace.pop_back();
  land(*peer.fake, work.remote + offset, bytes.data() + offset, length);
  pair.fake->bytesWritten += length;
  return true;
}

// False while the peer has no room for it.
bool FakeProvider::announce(Pair& pair, Pair& peer, const Work& work) {
  if (peer.receives.empty()) {
    if (pair.notReadyRetries < 7) fail(pair, IBV_WC_RNR_RETRY_EXC_ERR);
    return false;
  }
  ibv_wc completion{};
  completion.wr_id = peer.receives.front();
  completion.status = IBV_WC_SUCCESS;
  completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  completion.wc_flags = IBV_WC_WITH_IMM;
  completion.imm_data = work.immediate;
  completion.byte_len = static_cast<uint32_t>(work.nBytes());
  completion.qp_num = peer.qp_num;
  peer.receives.pop_front();
  push(*static_cast<Completions*>(peer.recv_cq), peer, completion, 1, false);
  return true;
}

void FakeProvider::complete(Pair& pair, const Work& work, ibv_wc_status status) {
  ++pair.unsignaled;
  const bool isSeen = status != IBV_WC_SUCCESS || work.isSignaled || pair.signalsAll;
  if (!isSeen) return;
  ibv_wc completion{};
  completion.wr_id = work.id;
  completion.status = status;
  completion.qp_num = pair.qp_num;
  push(*static_cast<Completions*>(pair.send_cq), pair, completion,
       std::exchange(pair.unsignaled, 0), true);
}

// The oldest work ends with this status, and the pair with it.
void FakeProvider::fail(Pair& pair, ibv_wc_status status) {
  const Work work = std::move(pair.sends.front());
  pair.sends.pop_front();
  complete(pair, work, status);
  pair.state = IBV_QPS_ERR;
}

void FakeProvider::push(Completions& queue, Pair& pair, ibv_wc completion, size_t frees,
                        bool isSend) {
  if (queue.isBroken) return;
  if (queue.found.size() < queue.capacity && !pair.fake->overruns) {
    queue.found.push_back({completion, pair.qp_num, frees, isSend});
    return;
  }
  queue.isBroken = true;
  raise(*pair.fake, IBV_EVENT_CQ_ERR, &queue);
  for (const auto& [number, other] : pairs_) {
    if (other->send_cq == &queue || other->recv_cq == &queue) other->state = IBV_QPS_ERR;
  }
}

void FakeProvider::raise(Device& device, ibv_event_type type, ibv_cq* queue) {
  for (const auto& context : contexts_) {
    if (context->fake != &device) continue;
    ibv_async_event event{};
    event.event_type = type;
    event.element.cq = queue;
    if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE) event.element.port_num = 1;
    context->events.push_back(event);
  }
}

void FakeProvider::takeDown(int device) {
  Lock lock(mutex_);
  devices_[device]->isDown = true;
  raise(*devices_[device], IBV_EVENT_PORT_ERR);
}

void FakeProvider::bringUp(int device) {
  Lock lock(mutex_);
  devices_[device]->isDown = false;
  raise(*devices_[device], IBV_EVENT_PORT_ACTIVE);
}

void FakeProvider::killDevice(int device) {
  Lock lock(mutex_);
  devices_[device]->isDead = true;
  for (const auto& [number, pair] : pairs_) {
    if (pair->fake == devices_[device].get()) pair->state = IBV_QPS_ERR;
  }
  raise(*devices_[device], IBV_EVENT_DEVICE_FATAL);
}

void FakeProvider::failQueues(int device, ibv_wc_status status) {
  Lock lock(mutex_);
  for (const auto& [number, pair] : pairs_) {
    const bool isIt = pair->fake == devices_[device].get() && pair->state == IBV_QPS_RTS;
    if (isIt && !pair->sends.empty()) fail(*pair, status);
  }
}

void FakeProvider::overrun(int device) {
  Lock lock(mutex_);
  devices_[device]->overruns = true;
}

void FakeProvider::setFaults(double postFailure, double queueFailure, int device) {
  Lock lock(mutex_);
  faultyDevice_ = device;
  postFailure_ = postFailure;
  queueFailure_ = queueFailure;
}

void FakeProvider::refuseRegions(int why) {
  Lock lock(mutex_);
  refusal_ = why;
}

void FakeProvider::failReads(int device, ibv_wc_status status) {
  Lock lock(mutex_);
  devices_[device]->readFailure = status;
}

void FakeProvider::addGpu(const void* data, size_t nBytes) {
  Lock lock(mutex_);
  const auto begin = reinterpret_cast<uint64_t>(data);
  gpuMemory_.push_back({begin, begin + nBytes});
}

int FakeProvider::exportDmabuf(const void* data, size_t nBytes) {
  addGpu(data, nBytes);
  Lock lock(mutex_);
  dmabufs_.push_back(gpuMemory_.back());
  return static_cast<int>(dmabufs_.size()) - 1;
}

void FakeProvider::forgetGpus() {
  Lock lock(mutex_);
  for (const auto& device : devices_) drain(*device);
  gpuMemory_.clear();
  dmabufs_.clear();
}

std::vector<FakeProvider::Known> FakeProvider::knownRegions() const {
  Lock lock(mutex_);
  std::vector<Known> all;
  for (const auto& [key, region] : regions_)
    all.push_back({region->addr, region->length, region->access});
  return all;
}

std::vector<uint32_t> FakeProvider::eceOf(int device) const {
  Lock lock(mutex_);
  std::vector<uint32_t> all;
  for (const auto& [number, pair] : pairs_) {
    const bool isIt = pair->fake->index == device && pair->state == IBV_QPS_RTS;
    if (isIt) all.push_back(pair->ece.value_or(0) & eceKnownTo(*pair->fake));
  }
  return all;
}

size_t FakeProvider::nReads(int device) const {
  Lock lock(mutex_);
  return devices_[device]->nReads;
}

uint64_t FakeProvider::bytesWritten(int device) const {
  Lock lock(mutex_);
  return devices_[device]->bytesWritten;
}

std::string FakeProvider::leftovers() const {
  Lock lock(mutex_);
  std::string text;
  const auto say = [&](size_t n, const char* what) {
    if (n > 0) text += std::to_string(n) + " " + what + "; ";
  };
  say(contexts_.size(), "contexts");
  say(domains_.size(), "protection domains");
  say(regions_.size(), "memory regions");
  say(completions_.size(), "completion queues");
  say(pairs_.size(), "queue pairs");
  return text;
}

}  // namespace cinch::net::ib
