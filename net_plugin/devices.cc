// The devices of this process: the ports of InfiniBand and RoCE, or sockets.
#include <filesystem>
#include <vector>

#include "net_plugin/log.h"
#include "net_plugin/net.h"
#include "net_plugin/socket/device.h"
#ifdef CINCH_VERBS
#include "net_plugin/ib/device.h"
#endif

namespace cinch::net {
namespace {

bool hasVerbsDevices() {
  std::error_code none;
  return !std::filesystem::is_empty("/sys/class/infiniband", none) && !none;
}

// None where no port is active. An error says why verbs cannot be used at all.
Result<std::vector<Device*>> openVerbs([[maybe_unused]] Device& sockets) {
#ifdef CINCH_VERBS
  const Result<ib::Settings> settings = ib::readSettings(environmentVariable);
  if (!settings) return settings.error();
  if (settings.value().isDisabled) return errorf(Status::systemError, "NCCL_IB_DISABLE=1");
  const Result<const ib::VerbsApi*> verbs = ib::loadVerbs();
  if (!verbs) return verbs.error();
  // Never destroyed: NCCL's threads may use them until the process ends.
  static auto& caretaker = *new ib::Caretaker;
  static const auto& all =
      *new ib::Devices(ib::openDevices(*verbs.value(), settings.value(), sockets, caretaker));
  std::vector<Device*> devices;
  if (!all.devices.empty()) CINCH_TRY(caretaker.startThread());
  for (const auto& device : all.devices) devices.push_back(device.get());
  return devices;
#else
  return errorf(Status::systemError,
                "this build of Cinch has no verbs: libibverbs-dev was missing");
#endif
}

Result<std::vector<Device*>> choose(const Params& params) {
  const Result<Device*> sockets = openSocketDevice(params);
  if (!sockets) return sockets.error();
  const std::vector<Device*> onlySockets = {sockets.value()};
  if (params.net == NetChoice::socket) return onlySockets;
  Result<std::vector<Device*>> ports = openVerbs(*sockets.value());
  if (ports && !ports.value().empty()) return ports;
  const std::string why =
      ports ? "no InfiniBand or RoCE port is active, or NCCL_IB_HCA names none that is"
            : ports.error().message;
  if (params.net == NetChoice::verbs) {
    return errorf(Status::systemError, "CINCH_NET=verbs: %s", why.c_str());
  }
  // Who has such devices expects that they are used.
  if (hasVerbsDevices()) {
    CINCH_NET_WARN("CINCH_NET=auto takes sockets: %s", why.c_str());
  } else {
    CINCH_NET_INFO("CINCH_NET=auto takes sockets: %s", why.c_str());
  }
  return onlySockets;
}

}  // namespace

Result<std::span<Device* const>> devices() {
  // Never destroyed, as what it names.
  static const auto& all = *new Result<std::vector<Device*>>(choose(processParams().params));
  if (!all) return all.error();
  return std::span<Device* const>(all.value());
}

}  // namespace cinch::net
