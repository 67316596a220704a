// All channels of one communicator: a ring through the ranks for collectives, and one pair per peer
// for sends and receives, connected at first use.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "common/result.h"
#include "emulator/nccl/channel.h"

namespace cinch::emulator {

class Connections {
 public:
  // Starts `transport` and listens for every peer. `commId` is equal on all ranks.
  static Result<std::unique_ptr<Connections>> listen(const NetTransport& transport, uint64_t commId,
                                                     int trafficClass, int rank, int nRanks);
  ~Connections();

  int rank() const { return net_.rank; }
  int nRanks() const { return nRanks_; }

  // Where the peers connect to: kNetHandleBytes for the ring, then as many for each rank.
  const std::vector<char>& handles() const { return handles_; }

  // Takes the handles of all ranks, one rank after the other.
  void setTable(std::vector<char> table) { table_ = std::move(table); }

  // Moves the ring's set-up on, without waiting; true once both neighbours are connected.
  Result<bool> connectRing();

  // Made at first use. `peer` is another rank.
  SendChannel& sendTo(int peer);
  ReceiveChannel& receiveFrom(int peer);
  // True where a connection with `peer` shows that its process has left.
  bool hasLeft(int peer) const;
  // Null where there is one rank only.
  SendChannel* ringOut() { return ringOut_.get(); }
  ReceiveChannel* ringIn() { return ringIn_.get(); }

 private:
  Connections(const NetContext& net, int nRanks) : net_(net), nRanks_(nRanks) {}
  Result<void> listenForPeers();
  Result<void*> addListener();
  NetHandle handleOf(int peer, int index) const;

  NetContext net_;
  int nRanks_;
  std::vector<char> handles_;
  std::vector<char> table_;
  void* ringListener_ = nullptr;
  std::vector<void*> listeners_;  // by peer; null once a channel owns it
  std::unique_ptr<SendChannel> ringOut_;
  std::unique_ptr<ReceiveChannel> ringIn_;
  std::map<int, std::unique_ptr<SendChannel>> sends_;
  std::map<int, std::unique_ptr<ReceiveChannel>> receives_;
};

}  // namespace cinch::emulator
