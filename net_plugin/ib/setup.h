// How a connection over verbs comes to be. Two connections of the socket transport, one for each
// direction, carry the cards and then stay as the connection's Control:
//
//   connecting                            accepting
//   connects by the listener's handle --> accepts
//   says Hello: a handle of its own, card --> makes its lanes ready
//   accepts                           <-- connects by that handle, says its card
//   makes its lanes ready, says Ready --> gives the connection to its owner
//
// Only then does the accepting side write, into lanes that are ready. Where it cannot make its own
// ready it says why in place of its card (a LaneLost), so that both sides end with the reason.
#pragma once

#include "net_plugin/ib/caretaker.h"
#include "net_plugin/ib/channel_control.h"
#include "net_plugin/ib/receiver.h"
#include "net_plugin/ib/sender.h"

namespace cinch::net::ib {

// What a device makes connections of. All of it lives as long as the process.
struct Site {
  Device* sockets = nullptr;
  Caretaker* caretaker = nullptr;  // of its connections
  std::vector<Port*> ports;        // that of the device first; the others take over when it fails
};

// Each step() goes on as far as it can without waiting; null while the peer is not that far.
class Connecting {
 public:
  // `handle`: of the peer's listener, as its sockets made it.
  Connecting(const Site& site, const Handle& handle, int trafficClass);
  Result<std::unique_ptr<Sender>> step();

 private:
  Result<void> introduce();

  const Site& site_;
  Handle handle_;
  const int trafficClass_;
  std::unique_ptr<Listener> listener_;  // for the way back
  std::unique_ptr<SenderSlots> slots_;
  Wiring wiring_;
  std::unique_ptr<ChannelControl> control_;
  Card card_;
};

class Accepting {
 public:
  Accepting(const Site& site, std::unique_ptr<Listener> listener);
  Result<std::unique_ptr<Receiver>> step();

 private:
  Result<void> hearHello(std::span<const uint8_t> hello);
  Result<void> answer(std::span<const uint8_t> card);
  Result<void> takeReady(std::span<const uint8_t> ready);

  const Site& site_;
  std::unique_ptr<Listener> listener_;
  std::optional<Error> refusal_;  // what is said in place of an answer
  Handle back_{};
  bool hasAnswered_ = false;
  std::unique_ptr<ReceiverSlots> slots_;
  Wiring wiring_;
  std::unique_ptr<ChannelControl> control_;
};

}  // namespace cinch::net::ib
