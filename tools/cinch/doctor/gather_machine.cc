#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/network/local_network.h"
#include "common/text.h"
#include "kernels/nvml/gpus.h"
#include "tools/cinch/doctor/gather.h"
#include "tools/cinch/doctor/loader.h"

namespace cinch::doctor {
namespace {

namespace fs = std::filesystem;

// What the kernel says in a file, without the end of the line; empty where there is none.
std::string contentOf(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const std::string content = text.str();
  return std::string(trim(content));
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ...": the first word that begins with
// a digit and has a dot.
std::string driverVersion(const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;)
    if (word[0] >= '0' && word[0] <= '9' && word.find('.') != std::string::npos) return word;
  return {};
}

// "4: ACTIVE"
std::string stateOf(const std::string& text) {
  const size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

std::vector<PortFact> portsBelow(const std::string& root) {
  std::vector<PortFact> ports;
  std::error_code error;
  for (const auto& device : fs::directory_iterator(root + "/sys/class/infiniband", error)) {
    for (const auto& port : fs::directory_iterator(device.path() / "ports", error)) {
      ports.push_back({device.path().filename().string() + ":" + port.path().filename().string(),
                       stateOf(contentOf(port.path() / "state")),
                       contentOf(port.path() / "link_layer"), contentOf(port.path() / "rate")});
    }
  }
  return ports;
}

// -1 where the kernel does not know.
int numberIn(const std::string& text) {
  int number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// dma-bufs of a GPU's memory can be registered with verbs from 5.12 on.
bool isRecentKernel() {
  utsname system{};
  int major = 0, minor = 0;
  if (uname(&system) != 0 || sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 12);
}

uint64_t limitOf(rlim_t limit) {
  return limit == RLIM_INFINITY ? kUnlimited : limit;
}

// The line "MemAvailable:  123 kB", in bytes.
uint64_t availableMemory(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string name, unit; file >> name;) {
    uint64_t kibibytes = 0;
    if (name == "MemAvailable:" && file >> kibibytes) return kibibytes << 10;
    std::getline(file, unit);
  }
  return 0;
}

uint64_t freeIn(const char* folder) {
  struct statvfs status {};
  return statvfs(folder, &status) == 0 ? uint64_t{status.f_bavail} * status.f_frsize : 0;
}

}  // namespace

DriverFacts gatherDriver(const std::string& root, int cudaMajor) {
  DriverFacts facts;
  facts.version = driverVersion(contentOf(root + "/proc/driver/nvidia/version"));
  facts.hasLibcuda = !findShared("libcuda.so.1").empty();
  facts.cudaMajor = cudaMajor;
  std::vector<GpuName> gpus;
  facts.hasNvml = listGpus(gpus);
  for (const GpuName& gpu : gpus) facts.gpus.push_back({gpu.name, gpu.nNvlinks});
  return facts;
}

NetworkFacts gatherNetwork(const std::string& root, const Variables& variables) {
  NetworkFacts facts;
  facts.list = variables["NCCL_SOCKET_IFNAME"];
  const std::vector<Interface> interfaces = listInterfaces();
  for (const Interface& interface : interfaces) {
    const std::string folder = root + "/sys/class/net/" + interface.name;
    facts.interfaces.push_back({interface.name, interface.address.text(), interface.loopback,
                                matchesInterfaceList(facts.list, interface.name),
                                numberIn(contentOf(folder + "/speed"))});
  }
  const auto choice = chooseAddress(interfaces, facts.list, variables["NCCL_SOCKET_FAMILY"]);
  if (choice.ok()) facts.choice = choice.value().text();
  facts.ports = portsBelow(root);
  std::error_code error;
  for (const char* module : {"nvidia_peermem", "nv_peer_mem"})
    facts.hasPeerMemory |= fs::exists(root + "/sys/module/" + module, error);
  facts.hasDmabuf = isRecentKernel();
  return facts;
}

LimitFacts gatherLimits(const std::string& root, const Params& params, bool hasVerbs) {
  LimitFacts facts;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts.descriptors = limitOf(limit.rlim_cur);
    facts.hardDescriptors = limitOf(limit.rlim_max);
  }
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) facts.lockedBytes = limitOf(limit.rlim_cur);
  facts.sharedMemoryBytes = freeIn("/dev/shm");
  facts.availableMemoryBytes = availableMemory(root);
  facts.nFlows = static_cast<int>(params.netFlows);
  facts.hasVerbs = hasVerbs;
  return facts;
}

}  // namespace cinch::doctor
