#include "net_plugin/ib/lane.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace cinch::net::ib {
namespace {

// Never with relaxed ordering: Port::addRegion() says why.
constexpr int kSlotsAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

// A completion's name: 32 bits of id, 8 of the kind of work, 8 of the queue.
uint64_t nameOf(Work work, size_t queue, uint32_t id) {
  return id | static_cast<uint64_t>(work) << 32 | static_cast<uint64_t>(queue) << 40;
}
uint32_t idOf(uint64_t name) {
  return static_cast<uint32_t>(name);
}
Work workOf(uint64_t name) {
  return static_cast<Work>(name >> 32 & 0xff);
}
size_t queueOf(uint64_t name) {
  return name >> 40;
}

// What to look at, for those who see only this line.
const char* likelyCause(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "no answer: is the peer gone, a cable out, or the wrong address in use "
             "(NCCL_IB_GID_INDEX)?";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer takes nothing: do all ranks use the same version of Cinch's net plugin?";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer's memory is not open to this: was it freed during a transfer?";
    case IBV_WC_LOC_PROT_ERR:
      return "memory of this process is not known to the device: was it freed during a transfer?";
    case IBV_WC_WR_FLUSH_ERR:
      return "the queue pair was ended from elsewhere";
    default:
      return "the device's log in dmesg may say more";
  }
}

constexpr const char* kFlushCause =
    "was the memory freed during a transfer, or is the port down? NCCL_NET_GDR_LEVEL=LOC goes by "
    "way of host memory";

// The shape with as many entries as queues of this port can have.
LaneShape within(const Port& port, LaneShape shape) {
  const uint32_t most = port.maxQueueEntries();
  shape.depth.sends = std::min(shape.depth.sends, most);
  shape.depth.receives = std::min(shape.depth.receives, most);
  shape.nFlushes = std::min(shape.nFlushes, most);
  return shape;
}

const char* wordFor(ibv_wc_status status) {
  constexpr std::array kWords = {"success",
                                 "local length error",
                                 "local operation error",
                                 "local EEC error",
                                 "local protection error",
                                 "flushed",
                                 "memory window error",
                                 "bad response",
                                 "local access error",
                                 "remote invalid request",
                                 "remote access error",
                                 "remote operation error",
                                 "retries exceeded",
                                 "RNR retries exceeded"};
  return static_cast<size_t>(status) < kWords.size() ? kWords[status] : "error";
}

}  // namespace

Result<std::unique_ptr<Lane>> Lane::create(Port& port, LaneShape shape, void* slots,
                                           size_t slotBytes) {
  const VerbsApi& verbs = port.verbs();
  shape = within(port, shape);
  const size_t nCompletions =
      shape.nQueues * (shape.depth.sends + shape.depth.receives) + shape.nFlushes;
  if (nCompletions > port.maxCompletions()) {
    return errorf(Status::invalidUsage,
                  "%s holds %u completions and %zu queues would need %zu: lower "
                  "NCCL_IB_QPS_PER_CONNECTION",
                  port.name().c_str(), port.maxCompletions(), shape.nQueues, nCompletions);
  }
  ibv_mr* region = verbs.regMr(port.domain(), slots, slotBytes, kSlotsAccess);
  ibv_cq* completions =
      region == nullptr
          ? nullptr
          : verbs.createCq(port.context(), static_cast<int>(nCompletions), nullptr, nullptr, 0);
  if (completions == nullptr) {
    const Error error =
        errorf(Status::systemError, "%s: no %s for a connection: %s", port.name().c_str(),
               region == nullptr ? "memory region" : "completion queue", strerror(errno));
    if (region != nullptr) verbs.deregMr(region);
    return error;
  }
  std::unique_ptr<Lane> lane(new Lane(port, completions, region));
  while (lane->queues_.size() < shape.nQueues) CINCH_TRY(lane->addQueue(shape.depth));
  if (shape.nFlushes > 0) CINCH_TRY(lane->addFlushQueue(shape.nFlushes));
  return lane;
}

Lane::~Lane() {
  close();
  port_.forget(completions_);
  port_.verbs().destroyCq(completions_);
  port_.verbs().deregMr(slots_);
}

Result<void> Lane::addQueue(QueueDepth depth) {
  auto queue = Queue::create(port_, completions_, depth);
  if (!queue) return queue.error();
  queues_.push_back(std::move(queue.value()));
  for (uint32_t i = 0; i < depth.receives; ++i) refill(queues_.size() - 1);
  if (failure_.empty()) return {};
  return errorf(Status::systemError, "%s", failure_.c_str());
}

// As NCCL's net_ib: both ends of it are here.
Result<void> Lane::addFlushQueue(uint32_t depth) {
  auto queue = Queue::create(port_, completions_, {depth, 1});
  if (!queue) return queue.error();
  flushQueue_ = std::move(queue.value());
  QueueCard itself = flushQueue_->card(0);
  itself.ece = {};
  return flushQueue_->connect(port_.card(), itself);
}

void Lane::refill(size_t queue) {
  if (queues_[queue]->receive(nameOf(Work::immediate, queue, 0)) == Posting::taken) {
    ++underWay_;
  } else {
    fail("it takes no more receives: " + std::string(strerror(errno)));
  }
}

void Lane::describe(Card& card) const {
  const auto index = static_cast<uint8_t>(card.ports.size());
  PortCard port = port_.card();
  port.ringKey = slots_->rkey;
  card.ports.push_back(port);
  for (const auto& queue : queues_) card.queues.push_back(queue->card(index));
}

Result<void> Lane::connect(const Card& peer, size_t lane, const PathWish& wish) {
  for (size_t i = 0; i < queues_.size(); ++i) {
    const QueueCard& other = peer.queues[lane * queues_.size() + i];
    CINCH_TRY(queues_[i]->connect(peer.ports[other.port], other, wish));
  }
  return {};
}

ibv_send_wr Lane::requestOf(const RemoteWrite& write, ibv_sge& piece, size_t queue) const {
  piece = {reinterpret_cast<uint64_t>(write.from), write.nBytes, write.localKey};
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.sg_list = &piece;
  request.num_sge = write.nBytes > 0 ? 1 : 0;
  request.wr.rdma.remote_addr = write.to;
  request.wr.rdma.rkey = write.remoteKey;
  if (write.nBytes > 0 && write.nBytes <= queues_[queue]->maxInline()) {
    request.send_flags = IBV_SEND_INLINE;
  }
  return request;
}

Posting Lane::postingOf(Posting posting) {
  if (posting == Posting::taken) ++underWay_;
  if (posting == Posting::refused) fail("it takes no more writes: " + std::string(strerror(errno)));
  return posting;
}

Posting Lane::write(size_t queue, const RemoteWrite& write, Work work, uint32_t id) {
  ibv_sge piece{};
  ibv_send_wr request = requestOf(write, piece, queue);
  request.wr_id = nameOf(work, queue, id);
  request.send_flags |= IBV_SEND_SIGNALED;
  size_t nPosted = 0;
  return postingOf(queues_[queue]->send(request, nPosted));
}

Posting Lane::announce(size_t queue, const RemoteWrite& data, bool& dataIsPosted,
                       const RemoteWrite& announcement, uint32_t immediate, uint32_t id) {
  std::array<ibv_sge, 2> pieces{};
  ibv_send_wr first = requestOf(data, pieces[0], queue);
  first.wr_id = nameOf(Work::data, queue, id);
  ibv_send_wr second = requestOf(announcement, pieces[1], queue);
  second.wr_id = nameOf(Work::arrival, queue, id);
  second.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  second.imm_data = immediate;
  second.send_flags |= IBV_SEND_SIGNALED;
  const bool both = data.nBytes > 0 && !dataIsPosted;
  first.next = &second;
  size_t nPosted = 0;
  const Posting posting = queues_[queue]->send(both ? first : second, nPosted);
  if (both && nPosted > 0) dataIsPosted = true;
  return postingOf(posting);
}

// PCI lets no read pass the writes that the same device made before, whatever queue they belong to.
// The device's completions, in memory of the host, do pass its writes into a GPU.
Posting Lane::flush(const void* data, uint32_t key, void* landing, uint32_t id) {
  ibv_sge piece = {reinterpret_cast<uint64_t>(landing), 1, slotsKey()};
  ibv_send_wr request{};
  request.wr_id = nameOf(Work::flush, 0, id);
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(data);
  request.wr.rdma.rkey = key;
  size_t nPosted = 0;
  return postingOf(flushQueue_->send(request, nPosted));
}

bool Lane::poll(LaneUser& user) {
  std::array<ibv_wc, 16> found;
  const int n = port_.verbs().pollCq(completions_, found.size(), found.data());
  if (n < 0) fail("its completions cannot be read");
  for (int i = 0; i < n; ++i) take(found[i], user);
  return n > 0;
}

void Lane::take(const ibv_wc& completion, LaneUser& user) {
  const Work work = workOf(completion.wr_id);
  if (work != Work::data) --underWay_;
  if (completion.status != IBV_WC_SUCCESS) return takeFailure(completion);
  if (work != Work::immediate) return user.written(work, idOf(completion.wr_id));
  if (!isStopping_ && !queues_.empty()) refill(queueOf(completion.wr_id));
  user.arrived(completion.imm_data);
}

void Lane::takeFailure(const ibv_wc& completion) {
  const bool isFlush = workOf(completion.wr_id) == Work::flush;
  if (isStopping_ || (queues_.empty() && !isFlush)) return;
  fail(std::string(isFlush ? "the flush of what it wrote into a GPU's memory: " : "") +
       wordFor(completion.status) + " (status " + std::to_string(completion.status) + ", vendor " +
       std::to_string(completion.vendor_err) + "), " +
       (isFlush ? kFlushCause : likelyCause(completion.status)));
}

void Lane::fail(std::string why) {
  if (failure_.empty()) failure_ = port_.name() + ": " + std::move(why);
}

void Lane::lookAtPort(Clock::duration patience) {
  std::string why = port_.failureOf(completions_, patience);
  if (!why.empty()) fail(std::move(why));
}

void Lane::stop(Clock::time_point now) {
  if (isStopping_) return;
  isStopping_ = true;
  stopped_ = now;
  for (const auto& queue : queues_) queue->stop();
  if (flushQueue_ != nullptr) flushQueue_->stop();
}

// A device that has died may not complete anything; without queue pairs it writes nothing either.
bool Lane::isStopped(Clock::time_point now) {
  if (!isStopping_) return false;
  if (underWay_ > 0 && now - stopped_ < kStopPatience) return false;
  close();
  return true;
}

}  // namespace cinch::net::ib
