// The table of verbs over a FakeProvider: checks what a real provider checks.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fake_objects.h"

namespace cinch::net::ib {
namespace {

FakeProvider* current = nullptr;

template <class T>
T* failWith(int why) {
  errno = why;
  return nullptr;
}

template <class Owners, class Object>
bool removeFrom(Owners& owners, const Object* object) {
  const auto found = std::find_if(owners.begin(), owners.end(),
                                  [&](const auto& it) { return it.get() == object; });
  if (found == owners.end()) {
    ADD_FAILURE() << "something was destroyed that is not there";
    return false;
  }
  owners.erase(found);
  return true;
}

}  // namespace

void setCurrentProvider(FakeProvider* provider) {
  EXPECT_TRUE(current == nullptr || provider == nullptr);
  current = provider;
}

ibv_gid fakeGid(int device) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 10;
  gid.raw[13] = 1;
  gid.raw[14] = static_cast<uint8_t>(device);
  gid.raw[15] = 1;
  return gid;
}

struct FakeCalls {
  using Lock = std::lock_guard<std::mutex>;

  static int forkInit() {
    EXPECT_TRUE(current->regions_.empty()) << "it is too late for forks";
    ++current->nForkInits_;
    return 0;
  }

  static ibv_device** getDeviceList(int* n) {
    const auto& devices = current->devices_;
    auto** list = new ibv_device*[devices.size() + 1]();
    std::transform(devices.begin(), devices.end(), list, [](const auto& it) { return it.get(); });
    *n = static_cast<int>(devices.size());
    return list;
  }
  static void freeDeviceList(ibv_device** list) { delete[] list; }
  static const char* getDeviceName(ibv_device* device) { return device->name; }

  static ibv_context* openDevice(ibv_device* device) {
    Lock lock(current->mutex_);
    auto context = std::make_unique<FakeProvider::Context>();
    context->device = device;
    context->fake = static_cast<FakeProvider::Device*>(device);
    context->async_fd = eventfd(0, 0);
    current->contexts_.push_back(std::move(context));
    return current->contexts_.back().get();
  }
  static int closeDevice(ibv_context* context) {
    Lock lock(current->mutex_);
    const bool inUse = std::any_of(current->domains_.begin(), current->domains_.end(),
                                   [&](const auto& it) { return it->context == context; });
    EXPECT_FALSE(inUse) << "a context is closed that has protection domains";
    close(context->async_fd);
    return removeFrom(current->contexts_, context) ? 0 : EINVAL;
  }
  static int queryDevice(ibv_context* context, ibv_device_attr* out) {
    out->sys_image_guid = 0x100 + static_cast<FakeProvider::Context*>(context)->fake->index;
    out->max_qp_wr = current->options_.maxQueueEntries;
    out->max_cqe = current->options_.maxCompletions;
    out->phys_port_cnt = 1;
    return 0;
  }
  static int queryPort(ibv_context* context, uint8_t port, ibv_port_attr* out) {
    if (port != 1) return EINVAL;
    Lock lock(current->mutex_);
    const auto& device = *static_cast<FakeProvider::Context*>(context)->fake;
    out->state = device.isDown || device.isDead ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    out->max_mtu = out->active_mtu = IBV_MTU_1024;
    out->gid_tbl_len = 4;
    out->link_layer = IBV_LINK_LAYER_ETHERNET;
    out->active_width = 1;
    out->active_speed = 32;
    return 0;
  }
  static int queryGid(ibv_context* context, uint32_t, uint32_t index, ibv_gid_entry* entry,
                      uint32_t, size_t) {
    if (index > 1) return ENODATA;
    const int device = static_cast<FakeProvider::Context*>(context)->fake->index;
    *entry = {};
    entry->gid_index = index;
    entry->port_num = 1;
    entry->gid_type = IBV_GID_TYPE_ROCE_V2;
    entry->gid = fakeGid(device);
    if (index == 0) {
      entry->gid = {};
      entry->gid.raw[0] = 0xfe;
      entry->gid.raw[1] = 0x80;
      entry->gid.raw[15] = static_cast<uint8_t>(device + 1);
    }
    return 0;
  }
  static int getAsyncEvent(ibv_context* context, ibv_async_event* event) {
    Lock lock(current->mutex_);
    auto& events = static_cast<FakeProvider::Context*>(context)->events;
    if (events.empty()) {
      errno = EAGAIN;
      return -1;
    }
    *event = events.front();
    events.pop_front();
    return 0;
  }
  static void ackAsyncEvent(ibv_async_event*) {}

  static ibv_pd* allocPd(ibv_context* context) {
    Lock lock(current->mutex_);
    current->domains_.push_back(std::make_unique<FakeProvider::Domain>());
    current->domains_.back()->context = context;
    return current->domains_.back().get();
  }
  static int deallocPd(ibv_pd* domain) {
    Lock lock(current->mutex_);
    bool inUse = false;
    for (const auto& [key, region] : current->regions_) inUse |= region->pd == domain;
    for (const auto& [number, pair] : current->pairs_) inUse |= pair->pd == domain;
    EXPECT_FALSE(inUse) << "a protection domain is freed that is in use";
    return removeFrom(current->domains_, domain) ? 0 : EINVAL;
  }
  static ibv_mr* addRegion(ibv_pd* domain, void* data, size_t nBytes, int access) {
    auto region = std::make_unique<FakeProvider::Region>();
    region->context = domain->context;
    region->pd = domain;
    region->addr = data;
    region->length = nBytes;
    region->access = access;
    region->lkey = region->rkey = current->nextKey_ += 1 + current->below(16);
    const uint32_t key = region->lkey;
    return (current->regions_[key] = std::move(region)).get();
  }
  static ibv_mr* regMr(ibv_pd* domain, void* data, size_t nBytes, int access) {
    Lock lock(current->mutex_);
    if (current->refusal_ != 0) return failWith<ibv_mr>(current->refusal_);
    const bool isGpu = current->isGpu(reinterpret_cast<uint64_t>(data));
    if (isGpu && !current->options_.resolvesGpus) return failWith<ibv_mr>(EFAULT);
    return addRegion(domain, data, nBytes, access);
  }
  static ibv_mr* regMrIova2(ibv_pd* domain, void* data, size_t nBytes, uint64_t, unsigned access) {
    return regMr(domain, data, nBytes, static_cast<int>(access));
  }
  // The memory of a GPU is where its address says, as far as this process knows.
  static ibv_mr* regDmabufMr(ibv_pd* domain, uint64_t offset, size_t nBytes, uint64_t address,
                             int descriptor, int access) {
    Lock lock(current->mutex_);
    const int why = current->refusal_ != 0 ? current->refusal_ : current->options_.dmabufError;
    if (why != 0) return failWith<ibv_mr>(why);
    if (descriptor < 0 || static_cast<size_t>(descriptor) >= current->dmabufs_.size()) {
      return failWith<ibv_mr>(EBADF);
    }
    const auto [begin, end] = current->dmabufs_[static_cast<size_t>(descriptor)];
    const bool isWithin = offset <= end - begin && nBytes <= end - begin - offset;
    constexpr uint64_t kInPage = 4095;
    const bool fits = (offset & kInPage) == (address & kInPage);
    if (nBytes == 0 || !isWithin || !fits) return failWith<ibv_mr>(EINVAL);
    EXPECT_EQ(address, begin + offset);
    return addRegion(domain, reinterpret_cast<void*>(address), nBytes, access);
  }
  static int deregMr(ibv_mr* region) {
    Lock lock(current->mutex_);
    for (const auto& device : current->devices_) FakeProvider::drain(*device);
    const size_t n = current->regions_.erase(region->lkey);
    EXPECT_EQ(n, 1u) << "a region is deregistered twice";
    return n == 1 ? 0 : EINVAL;
  }
  static ibv_cq* createCq(ibv_context* context, int entries, void*, ibv_comp_channel*, int) {
    if (entries < 1 || entries > current->options_.maxCompletions) {
      return failWith<ibv_cq>(EINVAL);
    }
    Lock lock(current->mutex_);
    auto queue = std::make_unique<FakeProvider::Completions>();
    queue->context = context;
    queue->capacity = static_cast<size_t>(entries);
    current->completions_.push_back(std::move(queue));
    return current->completions_.back().get();
  }
  static int destroyCq(ibv_cq* queue) {
    Lock lock(current->mutex_);
    for (const auto& [number, pair] : current->pairs_) {
      EXPECT_FALSE(pair->send_cq == queue || pair->recv_cq == queue)
          << "a completion queue is destroyed that is in use";
    }
    return removeFrom(current->completions_, static_cast<FakeProvider::Completions*>(queue))
               ? 0
               : EINVAL;
  }
  static ibv_qp* createQp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
    const int most = current->options_.maxQueueEntries;
    const bool tooMany = wanted->cap.max_send_wr > static_cast<uint32_t>(most) ||
                         wanted->cap.max_recv_wr > static_cast<uint32_t>(most);
    if (wanted->qp_type != IBV_QPT_RC || tooMany) return failWith<ibv_qp>(EINVAL);
    Lock lock(current->mutex_);
    wanted->cap.max_inline_data =
        std::min(wanted->cap.max_inline_data, current->options_.maxInline);
    auto pair = std::make_unique<FakeProvider::Pair>();
    pair->context = domain->context;
    pair->fake = static_cast<FakeProvider::Context*>(domain->context)->fake;
    pair->pd = domain;
    pair->send_cq = wanted->send_cq;
    pair->recv_cq = wanted->recv_cq;
    pair->caps = wanted->cap;
    pair->signalsAll = wanted->sq_sig_all != 0;
    pair->state = IBV_QPS_RESET;
    pair->qp_num = current->nextPair_ += 1 + current->below(8);
    const uint32_t number = pair->qp_num;
    return (current->pairs_[number] = std::move(pair)).get();
  }
  static int destroyQp(ibv_qp* pair) {
    Lock lock(current->mutex_);
    FakeProvider::drain(*static_cast<FakeProvider::Pair*>(pair)->fake);
    // As providers do: what it completed and nobody has polled is gone with it.
    for (const auto& queue : current->completions_) {
      std::erase_if(queue->found, [&](const auto& it) { return it.pair == pair->qp_num; });
    }
    const size_t n = current->pairs_.erase(pair->qp_num);
    EXPECT_EQ(n, 1u) << "a queue pair is destroyed twice";
    return n == 1 ? 0 : EINVAL;
  }

  static int modifyQp(ibv_qp* base, ibv_qp_attr* to, int which) {
    Lock lock(current->mutex_);
    auto& pair = *static_cast<FakeProvider::Pair*>(base);
    constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    constexpr int kReceive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    constexpr int kSend = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
    const auto from = pair.state;
    const bool isRight =
        (to->qp_state == IBV_QPS_INIT && from == IBV_QPS_RESET && which == kInit) ||
        (to->qp_state == IBV_QPS_RTR && from == IBV_QPS_INIT && which == kReceive) ||
        (to->qp_state == IBV_QPS_RTS && from == IBV_QPS_RTR && which == kSend) ||
        (to->qp_state == IBV_QPS_ERR && which == IBV_QP_STATE);
    if (!isRight) return EINVAL;
    if (to->qp_state == IBV_QPS_RTR) {
      pair.peer = to->dest_qp_num;
      pair.peerGid = to->ah_attr.grh.dgid;
    }
    if (to->qp_state == IBV_QPS_RTS) pair.notReadyRetries = to->rnr_retry;
    if (to->qp_state == IBV_QPS_ERR) FakeProvider::drain(*pair.fake);
    pair.state = to->qp_state;
    return 0;
  }

  static uint32_t vendorOf(int device) {
    return device == current->options_.eceStranger ? 0x8086 : 0x15b3;
  }
  static int queryEce(ibv_qp* base, ibv_ece* out) {
    Lock lock(current->mutex_);
    const auto& pair = *static_cast<FakeProvider::Pair*>(base);
    const uint32_t known = current->eceKnownTo(*pair.fake);
    if (known == 0) return EOPNOTSUPP;
    *out = {vendorOf(pair.fake->index), pair.ece.value_or(known) & known, 0};
    return 0;
  }
  static int setEce(ibv_qp* base, ibv_ece* options) {
    Lock lock(current->mutex_);
    auto& pair = *static_cast<FakeProvider::Pair*>(base);
    if (current->eceKnownTo(*pair.fake) == 0) return EOPNOTSUPP;
    const bool isRight = pair.state == IBV_QPS_INIT && options->comp_mask == 0 &&
                         options->vendor_id == vendorOf(pair.fake->index);
    EXPECT_TRUE(isRight) << "ECE that the queue pair cannot take, or not any more";
    if (!isRight || current->options_.eceError != 0) return current->options_.eceError;
    pair.ece = options->options;
    return 0;
  }

  static int pollCq(ibv_cq* base, int most, ibv_wc* out) {
    Lock lock(current->mutex_);
    current->stepLocked();
    auto& queue = *static_cast<FakeProvider::Completions*>(base);
    int n = 0;
    for (; n < most && !queue.found.empty(); ++n) {
      const auto found = queue.found.front();
      queue.found.pop_front();
      out[n] = found.completion;
      FakeProvider::Pair& pair = *current->pairs_.at(found.pair);
      (found.isSend ? pair.sendsUsed : pair.receivesUsed) -= found.frees;
    }
    return n;
  }

  static int postOneSend(FakeProvider::Pair& pair, const ibv_send_wr& request) {
    if (pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) return EINVAL;
    if (pair.sendsUsed == pair.caps.max_send_wr || current->chance(current->postFailure_)) {
      return ENOMEM;
    }
    FakeProvider::Work work;
    work.id = request.wr_id;
    work.opcode = request.opcode;
    work.isSignaled = (request.send_flags & IBV_SEND_SIGNALED) != 0;
    work.isInline = (request.send_flags & IBV_SEND_INLINE) != 0;
    work.immediate = request.imm_data;
    work.remote = request.wr.rdma.remote_addr;
    work.remoteKey = request.wr.rdma.rkey;
    work.pieces.assign(request.sg_list, request.sg_list + request.num_sge);
    work.delay = static_cast<int>(current->below(current->options_.maxDelay + 1));
    if (work.isInline) {
      if (work.nBytes() > pair.caps.max_inline_data) return EINVAL;
      for (const ibv_sge& piece : std::exchange(work.pieces, {})) {
        const auto* at = reinterpret_cast<const uint8_t*>(piece.addr);
        work.inlined.insert(work.inlined.end(), at, at + piece.length);
      }
    }
    ++pair.sendsUsed;
    pair.sends.push_back(std::move(work));
    return 0;
  }
  static int postSend(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** refused) {
    Lock lock(current->mutex_);
    for (ibv_send_wr* it = first; it != nullptr; it = it->next) {
      const int result = postOneSend(*static_cast<FakeProvider::Pair*>(pair), *it);
      if (result == 0) continue;
      *refused = it;
      return result;
    }
    return 0;
  }
  static int postReceive(ibv_qp* base, ibv_recv_wr* first, ibv_recv_wr** refused) {
    Lock lock(current->mutex_);
    auto& pair = *static_cast<FakeProvider::Pair*>(base);
    for (ibv_recv_wr* it = first; it != nullptr; it = it->next) {
      const bool isFull = pair.receivesUsed == pair.caps.max_recv_wr;
      if (isFull || pair.state == IBV_QPS_RESET) {
        *refused = it;
        return isFull ? ENOMEM : EINVAL;
      }
      ++pair.receivesUsed;
      pair.receives.push_back(it->wr_id);
    }
    return 0;
  }
};

VerbsApi fakeApi() {
  VerbsApi api;
  api.forkInit = FakeCalls::forkInit;
  api.getDeviceList = FakeCalls::getDeviceList;
  api.freeDeviceList = FakeCalls::freeDeviceList;
  api.getDeviceName = FakeCalls::getDeviceName;
  api.openDevice = FakeCalls::openDevice;
  api.closeDevice = FakeCalls::closeDevice;
  api.queryDevice = FakeCalls::queryDevice;
  api.queryPort = FakeCalls::queryPort;
  api.queryGid = FakeCalls::queryGid;
  api.getAsyncEvent = FakeCalls::getAsyncEvent;
  api.ackAsyncEvent = FakeCalls::ackAsyncEvent;
  api.allocPd = FakeCalls::allocPd;
  api.deallocPd = FakeCalls::deallocPd;
  api.regMr = FakeCalls::regMr;
  api.regMrIova2 = FakeCalls::regMrIova2;
  api.regDmabufMr = FakeCalls::regDmabufMr;
  api.deregMr = FakeCalls::deregMr;
  api.createCq = FakeCalls::createCq;
  api.destroyCq = FakeCalls::destroyCq;
  api.createQp = FakeCalls::createQp;
  api.modifyQp = FakeCalls::modifyQp;
  api.destroyQp = FakeCalls::destroyQp;
  api.queryEce = FakeCalls::queryEce;
  api.setEce = FakeCalls::setEce;
  api.pollCq = FakeCalls::pollCq;
  api.postSend = FakeCalls::postSend;
  api.postReceive = FakeCalls::postReceive;
  return api;
}

}  // namespace cinch::net::ib
