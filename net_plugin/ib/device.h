// InfiniBand and RoCE behind net.h: one device for each active port.
#pragma once

#include <memory>
#include <vector>

#include "net_plugin/ib/caretaker.h"
#include "net_plugin/ib/port.h"
#include "net_plugin/net.h"

namespace cinch::net::ib {

struct Devices {
  std::vector<std::unique_ptr<Port>> ports;
  std::vector<std::unique_ptr<Device>> devices;  // one for each port, over all of them
};

// All active ports that NCCL_IB_HCA means; none where there is none. `sockets`: what connections
// are made over, and what carries their control messages. `caretaker`: of the connections. Both
// outlive the devices. What cannot be used is said in the log.
Devices openDevices(const VerbsApi& verbs, const Settings& settings, Device& sockets,
                    Caretaker& caretaker);

}  // namespace cinch::net::ib
