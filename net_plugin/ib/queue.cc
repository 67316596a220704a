#include "net_plugin/ib/queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace cinch::net::ib {
namespace {

constexpr uint32_t kInlineBytes = sizeof(uint64_t) * 8;  // a ClearToSend
constexpr uint32_t kFirstPacket = 0;
constexpr uint8_t kHopLimit = 255;
// "Not ready" of a receiver is waited for 0.64 ms at a time (code 12), without end (7): room for an
// immediate is made ahead.
constexpr uint8_t kNotReadyTimer = 12;
constexpr uint8_t kNotReadyRetries = 7;

// InfiniBand between subnets is routed by addresses, too.
bool isGlobal(const Port& port, const PortCard& peer) {
  constexpr size_t kPrefixBytes = 8;
  const Gid& here = port.card().gid;
  return peer.link == LinkKind::ethernet || port.needsAddresses() ||
         !std::equal(here.begin(), here.begin() + kPrefixBytes, peer.gid.begin());
}

ibv_ah_attr pathTo(const Port& port, const PortCard& peer, const PathWish& wish) {
  ibv_ah_attr path{};
  path.port_num = port.number();
  path.sl = port.settings().serviceLevel.value_or(0);
  path.dlid = peer.link == LinkKind::infiniband ? peer.lid : 0;
  if (!isGlobal(port, peer)) return path;
  path.is_global = 1;
  path.grh.sgid_index = static_cast<uint8_t>(port.gidIndex());
  path.grh.hop_limit = kHopLimit;
  path.grh.traffic_class = port.settings().trafficClass.value_or(wish.trafficClass);
  std::copy(peer.gid.begin(), peer.gid.end(), path.grh.dgid.raw);
  return path;
}

// Results of verbs are an errno, or -1 with errno. It is in errno after, where there is one.
int errorOf(int result) {
  if (result > 0) errno = result;
  if (result < 0 && errno == 0) errno = EIO;
  return result == 0 ? 0 : errno;
}

bool isUnknown(int why) {
  return why == EOPNOTSUPP || why == ENOSYS;
}

Posting outcomeOf(int result) {
  const int why = errorOf(result);
  if (why == 0) return Posting::taken;
  return why == ENOMEM || why == EAGAIN ? Posting::full : Posting::refused;
}

}  // namespace

Result<std::unique_ptr<Queue>> Queue::create(Port& port, ibv_cq* completions, QueueDepth depth) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = depth.sends;
  wanted.cap.max_recv_wr = depth.receives;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = kInlineBytes;
  ibv_qp* pair = port.verbs().createQp(port.domain(), &wanted);
  if (pair == nullptr) {
    return errorf(Status::systemError, "%s: no queue pair of %u and %u entries: %s",
                  port.name().c_str(), depth.sends, depth.receives, strerror(errno));
  }
  std::unique_ptr<Queue> queue(new Queue(port, pair, wanted.cap.max_inline_data));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = port.settings().partition;
  attributes.port_num = port.number();
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  CINCH_TRY(queue->change(
      attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "begin"));
  const Result<EceOptions> ece = queue->queryEce();
  if (!ece) return ece.error();
  queue->ece_ = ece.value();
  return queue;
}

Queue::~Queue() {
  port_.verbs().destroyQp(pair_);
}

QueueCard Queue::card(uint8_t port) const {
  return {number(), kFirstPacket, port, ece_};
}

Result<void> Queue::change(ibv_qp_attr& to, int which, const char* what) {
  const int why = errorOf(port_.verbs().modifyQp(pair_, &to, which));
  if (why == 0) return {};
  Error error = errorf(Status::systemError, "%s: a queue pair cannot %s: %s", port_.name().c_str(),
                       what, strerror(why));
  errno = why;
  return error;
}

Result<void> Queue::connect(const PortCard& peerPort, const QueueCard& peer, const PathWish& wish) {
  CINCH_TRY(setEce(peer.ece));
  Result<void> ready = makeReadyToReceive(peerPort, peer, wish);
  for (int i = 1; i < wish.tries && !ready && errno == ETIMEDOUT; ++i) {
    ready = makeReadyToReceive(peerPort, peer, wish);
  }
  CINCH_TRY(ready);
  CINCH_TRY(makeReadyToSend());
  if (ece_.vendor == 0) return {};
  const Result<EceOptions> agreed = queryEce();
  if (!agreed) return agreed.error();
  ece_ = agreed.value();
  return {};
}

// Nothing where the library, the kernel or the device does not know it.
Result<EceOptions> Queue::queryEce() const {
  const VerbsApi& verbs = port_.verbs();
  const bool isKnown = verbs.queryEce != nullptr && verbs.setEce != nullptr;
  if (!port_.settings().ece || !isKnown) return EceOptions{};
  ibv_ece found{};
  const int why = errorOf(verbs.queryEce(pair_, &found));
  if (isUnknown(why) || (why == 0 && found.vendor_id == 0)) return EceOptions{};
  if (why == 0) return EceOptions{found.vendor_id, found.options};
  return errorf(Status::systemError,
                "%s: a queue pair does not say what it can do beyond the standard (ECE): %s; "
                "NCCL_IB_ECE_ENABLE=0 does without",
                port_.name().c_str(), strerror(why));
}

// Before the queue is ready to receive. Bits of another vendor mean something else.
Result<void> Queue::setEce(const EceOptions& offered) {
  if (offered.vendor != ece_.vendor) ece_ = {};
  if (ece_.vendor == 0) return {};
  ibv_ece options = {offered.vendor, offered.options, 0};
  const int why = errorOf(port_.verbs().setEce(pair_, &options));
  if (isUnknown(why)) ece_ = {};
  if (why == 0 || isUnknown(why)) return {};
  return errorf(Status::systemError,
                "%s: a queue pair cannot do what its peer offers (ECE of vendor %#x, options %#x): "
                "%s; NCCL_IB_ECE_ENABLE=0 does without",
                port_.name().c_str(), offered.vendor, offered.options, strerror(why));
}

Result<void> Queue::makeReadyToReceive(const PortCard& peerPort, const QueueCard& peer,
                                       const PathWish& wish) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::min(port_.card().mtu, peerPort.mtu));
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.firstPacket;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kNotReadyTimer;
  attributes.ah_attr = pathTo(port_, peerPort, wish);
  return change(attributes,
                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                "receive");
}

Result<void> Queue::makeReadyToSend() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = port_.settings().timeout;
  attributes.retry_cnt = port_.settings().retries;
  attributes.rnr_retry = kNotReadyRetries;
  attributes.sq_psn = kFirstPacket;
  attributes.max_rd_atomic = 1;
  return change(attributes,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                "send");
}

Posting Queue::send(ibv_send_wr& first, size_t& nPosted) {
  ibv_send_wr* refused = nullptr;
  const Posting posting = outcomeOf(port_.verbs().postSend(pair_, &first, &refused));
  const ibv_send_wr* const end = posting == Posting::taken ? nullptr : refused;
  nPosted = 0;
  for (const ibv_send_wr* it = &first; it != nullptr && it != end; it = it->next) ++nPosted;
  return posting;
}

Posting Queue::receive(uint64_t id) {
  ibv_recv_wr request{};
  request.wr_id = id;
  ibv_recv_wr* refused = nullptr;
  return outcomeOf(port_.verbs().postReceive(pair_, &request, &refused));
}

void Queue::stop() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  port_.verbs().modifyQp(pair_, &attributes, IBV_QP_STATE);
}

}  // namespace cinch::net::ib
