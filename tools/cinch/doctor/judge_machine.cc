#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/cinch/doctor/judge.h"

namespace cinch::doctor {
namespace {

// What a process has open beside connections: its libraries' files, devices, data sets, logs.
constexpr uint64_t kOwnDescriptors = 200;
constexpr uint64_t kFewPeers = 8, kManyPeers = 64;
constexpr uint64_t kMiB = 1 << 20;
// NCCL keeps up to some 10 MiB of buffers for each pair of ranks on a host there.
constexpr uint64_t kLittleSharedMemory = 64 * kMiB;
constexpr uint64_t kLittleMemory = 1024 * kMiB;

std::string mebibytes(uint64_t nBytes) {
  return nBytes == kUnlimited ? "unlimited" : fmt::format("{} MiB", nBytes / kMiB);
}

// Peers that have room, where both sides may have begun a link at once.
uint64_t peersWithin(const LimitFacts& facts) {
  const uint64_t left = facts.descriptors - std::min(facts.descriptors, kOwnDescriptors);
  return left / (2 * static_cast<uint64_t>(facts.nFlows));
}

Check judgeDescriptors(const LimitFacts& facts) {
  if (facts.descriptors == kUnlimited)
    return {"descriptors", Verdict::pass, "as many open files as it likes", ""};
  const uint64_t nPeers = peersWithin(facts);
  const std::string found =
      fmt::format("a process may have {} descriptors open, enough for connections to {} peers",
                  facts.descriptors, nPeers);
  if (nPeers >= kManyPeers) return {"descriptors", Verdict::pass, found, ""};
  const bool canRaise = facts.hardDescriptors > facts.descriptors;
  const std::string wanted =
      facts.hardDescriptors == kUnlimited ? "65536" : std::to_string(facts.hardDescriptors);
  return {"descriptors", nPeers < kFewPeers ? Verdict::fail : Verdict::warn, found,
          canRaise ? fmt::format("`ulimit -n {}` before the job starts", wanted)
                   : "raise the hard limit of `ulimit -n` (limits.conf, LimitNOFILE, or "
                     "--ulimit nofile of a container)"};
}

Check judgeLocked(const LimitFacts& facts) {
  const std::string found = "locked memory: " + mebibytes(facts.lockedBytes);
  if (!facts.hasVerbs || facts.lockedBytes == kUnlimited)
    return {"locked-memory", Verdict::pass, found, ""};
  return {"locked-memory", Verdict::warn, found + ", which InfiniBand and RoCE take buffers from",
          "`ulimit -l unlimited` (limits.conf, LimitMEMLOCK, or --ulimit memlock=-1 of a "
          "container)"};
}

Check judgeShared(const LimitFacts& facts) {
  const std::string found = mebibytes(facts.sharedMemoryBytes) + " are free in /dev/shm";
  if (facts.sharedMemoryBytes >= kLittleSharedMemory)
    return {"shared-memory", Verdict::pass, found, ""};
  return {"shared-memory", Verdict::warn, found + ": too little for NCCL between ranks of a host",
          "delete what lies there, or start the container with --shm-size=1g; NCCL_SHM_DISABLE=1 "
          "does without"};
}

Check judgeMemory(const LimitFacts& facts) {
  if (facts.availableMemoryBytes == 0)
    return {"memory", Verdict::skip, "/proc/meminfo does not say what is free", ""};
  const std::string found = mebibytes(facts.availableMemoryBytes) + " of memory are available";
  if (facts.availableMemoryBytes >= kLittleMemory) return {"memory", Verdict::pass, found, ""};
  return {"memory", Verdict::warn, found, "end what else runs here"};
}

std::string textOf(const InterfaceFact& interface) {
  const std::string speed =
      interface.megabits > 0 ? fmt::format(", {} Mbit/s", interface.megabits) : "";
  return fmt::format("{} ({}{})", interface.name, interface.address, speed);
}

Check judgeInterfaces(const NetworkFacts& facts) {
  std::vector<std::string> all, selected;
  bool hasOthers = false;
  for (const InterfaceFact& interface : facts.interfaces) {
    if (std::find(all.begin(), all.end(), interface.name) == all.end())
      all.push_back(interface.name);
    if (interface.isSelected) selected.push_back(textOf(interface));
    hasOthers |= interface.isSelected && !interface.isLoopback;
  }
  if (all.empty()) {
    return {"interfaces", Verdict::fail, "no network interface is up",
            "bring one up: `ip link set lo up` is enough for ranks of one host"};
  }
  if (selected.empty()) {
    return {"interfaces", Verdict::fail,
            fmt::format("NCCL_SOCKET_IFNAME={} matches no interface that is up", facts.list),
            fmt::format("set it to one of {}, or unset it", fmt::join(all, ", "))};
  }
  if (!hasOthers) {
    return {"interfaces", Verdict::warn,
            fmt::format("{}: no other host can be reached", fmt::join(selected, ", ")),
            "for jobs of several hosts, set NCCL_SOCKET_IFNAME to the network between them"};
  }
  const std::string choice = facts.choice.empty() ? "" : "; NCCL takes " + facts.choice;
  return {"interfaces", Verdict::pass, fmt::format("{}{}", fmt::join(selected, ", "), choice), ""};
}

Check judgePorts(const NetworkFacts& facts) {
  if (facts.ports.empty())
    return {"verbs", Verdict::skip, "no InfiniBand or RoCE device, so sockets are used", ""};
  std::vector<std::string> active, others;
  for (const PortFact& port : facts.ports) {
    if (port.state == "ACTIVE")
      active.push_back(fmt::format("{} ({}, {})", port.name, port.link, port.rate));
    else
      others.push_back(fmt::format("{} ({})", port.name, port.state));
  }
  if (!active.empty())
    return {"verbs", Verdict::pass, fmt::format("{}", fmt::join(active, ", ")), ""};
  return {"verbs", Verdict::warn, fmt::format("no port is active: {}", fmt::join(others, ", ")),
          "see `ibv_devinfo`: cable, switch, subnet manager; without a port sockets are used"};
}

Check judgeGpuDirect(const NetworkFacts& facts) {
  if (facts.ports.empty())
    return {"gpu-direct", Verdict::skip, "no card that could read a GPU's memory", ""};
  if (facts.hasPeerMemory) return {"gpu-direct", Verdict::pass, "nvidia_peermem is loaded", ""};
  if (facts.hasDmabuf) {
    return {"gpu-direct", Verdict::pass,
            "the kernel has dma-bufs, with which NVIDIA's open kernel modules do it", ""};
  }
  return {"gpu-direct", Verdict::warn,
          "cards cannot read a GPU's memory: messages go through the host's",
          "`modprobe nvidia_peermem`, or a kernel from 5.12 on"};
}

}  // namespace

Checks judgeLimits(const LimitFacts& facts) {
  return {judgeDescriptors(facts), judgeLocked(facts), judgeShared(facts), judgeMemory(facts)};
}

Checks judgeNetwork(const NetworkFacts& facts) {
  return {judgeInterfaces(facts), judgePorts(facts), judgeGpuDirect(facts)};
}

Checks judgePlugins(const std::vector<PluginFact>& plugins) {
  Checks checks;
  for (const PluginFact& plugin : plugins) {
    if (plugin.value.empty()) {
      checks.push_back({"plugins", Verdict::warn,
                        fmt::format("NCCL loads {} without being told to", plugin.path),
                        fmt::format("to leave it out set {}=none, or cinch", plugin.variable)});
    } else if (plugin.path.empty() && plugin.value != "none") {
      checks.push_back({"plugins", Verdict::fail,
                        fmt::format("{}={}, but the loader finds no such library", plugin.variable,
                                    plugin.value),
                        plugin.isOurs
                            ? "add the folder of Cinch's libraries to LD_LIBRARY_PATH"
                            : "correct it, or add the library's folder to LD_LIBRARY_PATH"});
    } else {
      checks.push_back({"plugins", Verdict::pass,
                        fmt::format("{}={} {}", plugin.variable, plugin.value, plugin.path), ""});
    }
  }
  if (checks.empty())
    checks.push_back({"plugins", Verdict::pass, "NCCL loads none: none is named or found", ""});
  return checks;
}

Checks judgeExchange(const ExchangeFacts& facts) {
  if (!facts.hasEmulator)
    return {{"exchange", Verdict::skip, "no emulator beside this program", ""}};
  if (!facts.hasEnded) {
    return {{"exchange", Verdict::fail, "two ranks on the loopback did not come to an end",
             "see that a firewall lets connections over lo through"}};
  }
  if (facts.status != 0) {
    return {{"exchange", Verdict::fail,
             fmt::format("two ranks on the loopback failed: {}", facts.lastLine),
             "see the other failures first; `cinch bench all_reduce --emulator --ranks 2` shows "
             "more"}};
  }
  if (!facts.isCompressed) {
    return {{"exchange", Verdict::fail, "two ranks on the loopback reduced without compressing",
             "see the libraries above; NCCL_DEBUG=INFO says why calls pass"}};
  }
  return {
      {"exchange", Verdict::pass, "two ranks on the loopback reduced a bucket, compressed", ""}};
}

}  // namespace cinch::doctor
