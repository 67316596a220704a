// What a link tells of itself: figures that outlive the flows that they are of.
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "net_plugin/log.h"
#include "net_plugin/socket/link.h"

namespace cinch::net {
namespace {

void addConnection(FlowFigures& figures, const Flow& flow) {
  tcp_info info{};
  socklen_t length = sizeof info;
  // Without an answer these two stay 0.
  getsockopt(flow.socket.fd(), IPPROTO_TCP, TCP_INFO, &info, &length);
  figures.roundTripUs = info.tcpi_rtt;
  figures.counters.retransmissions += info.tcpi_total_retrans;
  figures.counters.sentBytes += flow.writer.written();
  figures.counters.receivedBytes += flow.reader.received();
}

}  // namespace

FlowCounters& Link::countersOf(const Flow& flow) {
  return places_[flow.index].counters;
}

// A flow that neither half uses any more.
void Link::keepFigures(const Flow& flow, const Lock&) {
  FlowFigures figures;
  addConnection(figures, flow);
  add(countersOf(flow), figures.counters);
}

void Link::openingFailed(int index, const std::string& why) {
  Lock lock(mutex_);
  ++places_[index].counters.failedOpenings;
  if (!failureLines_.admits()) return;
  CINCH_NET_INFO("flow %d to %s cannot be opened: %s", index, peer_.c_str(), why.c_str());
}

PeerFigures Link::figures() {
  PeerFigures peer;
  peer.name = peer_;
  std::vector<FlowPointer> connections;
  {
    Lock lock(mutex_);
    if (error_) peer.error = error_->message;
    peer.flows = places_;
    for (const FlowPointer& flow : replaced_) {
      if (!flow->isThrough()) connections.push_back(flow);
    }
    for (const FlowPointer& flow : flows_) {
      if (flow == nullptr) continue;
      connections.push_back(flow);
      peer.flows[flow->index].isOpen = !flow->isDead;
      peer.flows[flow->index].bytesPerSecond = flow->rate.bytesPerSecond();
    }
  }
  // The kernel is asked without the lock, which those need who move bytes.
  for (const FlowPointer& flow : connections) addConnection(peer.flows[flow->index], *flow);
  return peer;
}

}  // namespace cinch::net
