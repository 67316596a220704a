// All channels of one communicator: a ring through the ranks for collectives, and one pair per peer
// for sends and receives, opened at first use.
#pragma once

#include <memory>
#include <vector>

#include "common/result.h"
#include "emulator/nccl/channel.h"
#include "emulator/nccl/network.h"
#include "emulator/nccl/service_thread.h"
#include "emulator/nccl/wakeup.h"

namespace cinch::emulator {

class Connections {
 public:
  // Listens for every peer. Log lines of the service thread carry `cudaDevice`.
  static Result<std::unique_ptr<Connections>> listen(Network network, int rank, int nRanks,
                                                     int cudaDevice);
  // Nobody may use a channel any more.
  ~Connections();

  int rank() const { return net_.rank; }
  int nRanks() const { return nRanks_; }
  const char* networkName() const { return net_.transport->name(); }
  bool isPollable() const { return net_.transport->isPollable(); }
  // Notified when a channel has opened, or has failed to.
  const std::shared_ptr<Wakeup>& wakeup() const { return wakeup_; }

  // Where the peers connect to: kNetHandleBytes for the ring, then as many for each rank.
  const std::vector<char>& handles() const { return handles_; }

  // Takes the handles of all ranks, one rank after the other: to be called before what follows.
  void setTable(const std::vector<char>& table);

  // Begins to connect the ring, at the first call; true once both neighbours are connected.
  Result<bool> connectRing();

  // Begins to open the channel, at the first call. `peer` is another rank.
  SendChannel& sendTo(int peer);
  ReceiveChannel& receiveFrom(int peer);
  // The same for a send or receive.
  const Channel& channelOf(const Operation& transfer);
  // Whether the channel is still to open, or to fail.
  static bool isOpening(const Channel& channel);
  // Null where there is one rank only.
  SendChannel* ringOut() { return ringOut_.get(); }
  ReceiveChannel* ringIn() { return ringIn_.get(); }

 private:
  Connections(Network network, int rank, int nRanks, int cudaDevice);
  Result<void> checkDevice() const;
  Result<void> listenForPeers();
  Result<std::unique_ptr<ReceiveChannel>> listenFor(int peer);
  std::unique_ptr<SendChannel> channelTo(int peer, const std::vector<char>& table, int index) const;
  void open(SendChannel& channel);
  void open(ReceiveChannel& channel);
  bool tryAccept(ReceiveChannel& channel);
  bool hasLeft(int peer) const;
  void closeAll();

  Network network_;
  NetContext net_;
  int nRanks_;
  const std::shared_ptr<Wakeup> wakeup_ = std::make_shared<Wakeup>();
  std::vector<char> handles_;
  std::unique_ptr<SendChannel> ringOut_;
  std::unique_ptr<ReceiveChannel> ringIn_;
  std::vector<std::unique_ptr<SendChannel>> sends_;        // by peer
  std::vector<std::unique_ptr<ReceiveChannel>> receives_;  // by peer
  std::mutex mutex_;                                       // of what follows
  std::condition_variable opened_;
  bool gaveUp_ = false;
  ServiceThread service_;
};

}  // namespace cinch::emulator
