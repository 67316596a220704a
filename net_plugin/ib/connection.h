// The two ends of a connection over verbs behind net.h: requests in places that are used again.
#pragma once

#include "net_plugin/ib/receiver.h"
#include "net_plugin/ib/sender.h"

namespace cinch::net::ib {

std::unique_ptr<SendConnection> connectionOf(std::unique_ptr<Sender> sender);
std::unique_ptr<ReceiveConnection> connectionOf(std::unique_ptr<Receiver> receiver);

}  // namespace cinch::net::ib
