// A reliable connected queue pair: one ordered way to one queue of the peer. Owned by a Lane.
#pragma once

#include <memory>

#include "net_plugin/ib/port.h"

namespace cinch::net::ib {

// How many work requests may be under way, in each direction.
struct QueueDepth {
  uint32_t sends = 0;
  uint32_t receives = 0;
};

// What the way to a peer is to be like.
struct PathWish {
  uint8_t trafficClass = 0;  // where NCCL_IB_TC does not say
  int tries = 1;             // to find a RoCE peer's address, of a second each
};

// Unless it is taken, errno says why.
enum class Posting { taken, full, refused };

class Queue {
 public:
  // `completions` takes what both directions complete.
  static Result<std::unique_ptr<Queue>> create(Port& port, ibv_cq* completions, QueueDepth depth);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Of this end; `port`: its index in the card.
  QueueCard card(uint8_t port) const;
  // From here on the peer may write, and this side may post. Where both know ECE of one vendor this
  // side uses what of it the peer says, as far as it can, and card() says that from then on.
  Result<void> connect(const PortCard& peerPort, const QueueCard& peer, const PathWish& wish = {});

  uint32_t number() const { return pair_->qp_num; }
  uint32_t maxInline() const { return maxInline_; }

  // A chain of work requests, of which the first `nPosted` are under way when it returns. `full`:
  // post the rest again when something has completed.
  Posting send(ibv_send_wr& first, size_t& nPosted);
  // Makes room for one more immediate of the peer.
  Posting receive(uint64_t id);
  // Nothing is written by the peer from here on, and all that is under way completes, with an
  // error.
  void stop();

 private:
  Queue(Port& port, ibv_qp* pair, uint32_t maxInline)
      : port_(port), pair_(pair), maxInline_(maxInline) {}
  // Where it fails errno says why.
  Result<void> change(ibv_qp_attr& to, int which, const char* what);
  Result<EceOptions> queryEce() const;
  Result<void> setEce(const EceOptions& offered);
  Result<void> makeReadyToReceive(const PortCard& peerPort, const QueueCard& peer,
                                  const PathWish& wish);
  Result<void> makeReadyToSend();

  Port& port_;
  ibv_qp* const pair_;
  const uint32_t maxInline_;
  EceOptions ece_;
};

}  // namespace cinch::net::ib
