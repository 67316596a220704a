// The two ends of a connection over verbs behind net.h: requests in places that are used again, and
// turns for those who use an end.
#pragma once

#include "net_plugin/ib/caretaker.h"
#include "net_plugin/ib/receiver.h"
#include "net_plugin/ib/sender.h"

namespace cinch::net::ib {

// `caretaker` looks after the connection while nobody else does, and outlives it.
std::unique_ptr<SendConnection> connectionOf(std::unique_ptr<Sender> sender, Caretaker& caretaker);
std::unique_ptr<ReceiveConnection> connectionOf(std::unique_ptr<Receiver> receiver,
                                                Caretaker& caretaker);

}  // namespace cinch::net::ib
