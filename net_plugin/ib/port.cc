#include "net_plugin/ib/port.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "net_plugin/log.h"

namespace cinch::net::ib {
namespace {

constexpr const char* kPortDown = "the port is down: is its cable or interface?";

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
// Lanes of a link and their rates in Mbit/s, as bits and powers of two count them
// (ibv_port_attr::active_width, active_speed).
constexpr std::array<int, 5> kWidths = {1, 4, 8, 12, 2};
constexpr std::array<int, 9> kSpeeds = {2500,  5000,  10000,  10000, 14000,
                                        25000, 50000, 100000, 200000};

template <size_t N>
int atBit(const std::array<int, N>& values, unsigned bits) {
  const int bit = std::countr_zero(bits);
  return bits == 0 ? values[0] : values[std::min<size_t>(bit, N - 1)];
}

GidKind kindOf(uint32_t type) {
  if (type == IBV_GID_TYPE_IB) return GidKind::infiniband;
  return type == IBV_GID_TYPE_ROCE_V1 ? GidKind::roceV1 : GidKind::roceV2;
}

}  // namespace

Port::Port(const VerbsApi& verbs, const Settings& settings, ibv_context* context, uint8_t number,
           std::string device)
    : verbs_(verbs),
      settings_(settings),
      context_(context),
      number_(number),
      name_(std::move(device) + ":" + std::to_string(number)),
      regions_([this](void* data, size_t nBytes) { return addRegion(data, nBytes); },
               [this](ibv_mr* region) { return removeRegion(region); },
               static_cast<size_t>(sysconf(_SC_PAGESIZE))) {}

Port::~Port() {
  if (domain_ != nullptr) verbs_.deallocPd(domain_);
  verbs_.closeDevice(context_);
}

Result<std::unique_ptr<Port>> Port::open(const VerbsApi& verbs, ibv_device* device, uint8_t number,
                                         const Settings& settings) {
  const char* name = verbs.getDeviceName(device);
  ibv_context* context = verbs.openDevice(device);
  if (context == nullptr) {
    return errorf(Status::systemError,
                  "cannot open InfiniBand device %s: %s; a container needs /dev/infiniband", name,
                  strerror(errno));
  }
  std::unique_ptr<Port> port(new Port(verbs, settings, context, number, name));
  const Result<bool> isActive = port->query();
  if (!isActive) return isActive.error();
  if (!isActive.value()) return std::unique_ptr<Port>();
  port->domain_ = verbs.allocPd(context);
  if (port->domain_ == nullptr) {
    return errorf(Status::systemError, "%s: no protection domain: %s", port->name_.c_str(),
                  strerror(errno));
  }
  port->deviceMemory_ = {hasPeerMemory(settings.sysfs), takesDmabuf(verbs, port->domain_)};
  // Events are looked for by whoever has time.
  fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
  return port;
}

// False where there is no such port or it is not active.
Result<bool> Port::query() {
  ibv_port_attr port{};
  ibv_device_attr device{};
  const bool isDevice = verbs_.queryDevice(context_, &device) == 0;
  if (isDevice && number_ > device.phys_port_cnt) return false;
  if (!isDevice || verbs_.queryPort(context_, number_, &port) != 0) {
    return errorf(Status::systemError, "%s does not say what it is: %s", name_.c_str(),
                  strerror(errno));
  }
  if (port.state != IBV_PORT_ACTIVE) return false;
  const bool isEthernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  card_.link = isEthernet ? LinkKind::ethernet : LinkKind::infiniband;
  card_.lid = port.lid;
  card_.mtu = static_cast<uint8_t>(port.active_mtu);
  needsAddresses_ = (port.flags & IBV_QPF_GRH_REQUIRED) != 0;
  guid_ = device.sys_image_guid;
  speedMbps_ = atBit(kWidths, port.active_width) * atBit(kSpeeds, port.active_speed);
  maxQueueEntries_ = static_cast<uint32_t>(device.max_qp_wr);
  maxCompletions_ = static_cast<uint32_t>(device.max_cqe);
  choice_ = "InfiniBand, LID " + std::to_string(port.lid);
  if (isEthernet) {
    CINCH_TRY(chooseAddress(static_cast<uint32_t>(port.gid_tbl_len)));
  } else {
    takeFirstAddress();
  }
  return true;
}

// An InfiniBand port's own; the others are those of virtual ones.
void Port::takeFirstAddress() {
  ibv_gid_entry entry{};
  if (verbs_.queryGid(context_, number_, 0, &entry, 0, sizeof entry) != 0) return;
  std::copy_n(entry.gid.raw, card_.gid.size(), card_.gid.begin());
}

Result<void> Port::chooseAddress(uint32_t nGids) {
  std::vector<GidEntry> table;
  for (uint32_t index = 0; index < nGids && index <= kMostGidIndex; ++index) {
    ibv_gid_entry entry{};
    if (verbs_.queryGid(context_, number_, index, &entry, 0, sizeof entry) != 0) continue;
    GidEntry known{.index = index, .gid = {}, .kind = kindOf(entry.gid_type)};
    std::copy_n(entry.gid.raw, known.gid.size(), known.gid.begin());
    table.push_back(known);
  }
  const Result<GidChoice> choice = chooseGid(table, settings_.gid);
  if (!choice) {
    return errorf(choice.error().status, "%s: %s", name_.c_str(), choice.error().message.c_str());
  }
  gidIndex_ = choice.value().entry.index;
  card_.gid = choice.value().entry.gid;
  choice_ = choice.value().why;
  return {};
}

// "0000:3b:01.2": the last digit is the function, those before the dot the device.
std::string cardPathOf(std::string functionPath) {
  const size_t end = functionPath.size();
  if (end < 4 || functionPath[end - 2] != '.') return functionPath;
  functionPath[end - 1] = functionPath[end - 3] = functionPath[end - 4] = '0';
  return functionPath;
}

std::string Port::pciPath() const {
  const std::string link = std::string(context_->device->ibdev_path) + "/device";
  char path[PATH_MAX];
  if (realpath(link.c_str(), path) == nullptr) return "";
  const bool isPci = strstr(path, "/pci") != nullptr;
  return isPci ? cardPathOf(path) : "";
}

std::string Port::failureOf(const ibv_cq* completions,
                            std::chrono::steady_clock::duration patience) {
  std::lock_guard lock(mutex_);
  noteEvents();
  if (isFatal_) return "the device has failed";
  if (downSince_ && std::chrono::steady_clock::now() - *downSince_ >= patience) {
    return kPortDown;
  }
  const bool isOverrun = std::count(overrun_.begin(), overrun_.end(), completions) > 0;
  return isOverrun ? "a completion queue has lost completions" : "";
}

// Its address may soon be that of another.
void Port::forget(const ibv_cq* completions) {
  std::lock_guard lock(mutex_);
  noteEvents();
  std::erase(overrun_, completions);
}

// Requires mutex_.
void Port::noteEvents() {
  ibv_async_event event{};
  while (verbs_.getAsyncEvent(context_, &event) == 0) {
    note(event);
    verbs_.ackAsyncEvent(&event);
  }
}

// Requires mutex_. What happens to a single queue pair shows in its completions.
void Port::note(const ibv_async_event& event) {
  const bool isHere = event.element.port_num == number_;
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      isFatal_ = true;
      CINCH_NET_WARN("%s: the device has failed", name_.c_str());
      break;
    case IBV_EVENT_PORT_ERR:
      if (!isHere || downSince_) break;
      downSince_ = std::chrono::steady_clock::now();
      CINCH_NET_WARN("%s: %s", name_.c_str(), kPortDown);
      break;
    case IBV_EVENT_PORT_ACTIVE:
      if (!isHere || !downSince_) break;
      downSince_.reset();
      CINCH_NET_INFO("%s: the port is active again", name_.c_str());
      break;
    case IBV_EVENT_CQ_ERR:
      overrun_.push_back(event.element.cq);
      break;
    default:
      break;
  }
}

// As NCCL: who has not the call that came with relaxed ordering has not relaxed ordering.
bool Port::relaxesOrdering() const {
  return settings_.relaxedOrdering && verbs_.regMrIova2 != nullptr;
}

// Relaxed ordering lets PCI move the bytes of a message in any order among themselves. That is
// enough for the caller's buffers: nobody looks at them before the completion of the immediate that
// announces them, and a completion, written without it, passes nothing that was written before. The
// rings of slots.h are not registered here and never have it: the sending side looks at their
// stamps without waiting for any completion, and an Arrival has to be there with its own.
Result<ibv_mr*> Port::addRegion(void* data, size_t nBytes) {
  ibv_mr* region = relaxesOrdering()
                       ? verbs_.regMrIova2(domain_, data, nBytes, reinterpret_cast<uint64_t>(data),
                                           kAccess | IBV_ACCESS_RELAXED_ORDERING)
                       : verbs_.regMr(domain_, data, nBytes, kAccess);
  if (region != nullptr) return region;
  return errorf(
      Status::systemError,
      "%s: cannot make %zu bytes at %p known: %s; is `ulimit -l` (locked memory) too low?",
      name_.c_str(), nBytes, data, strerror(errno));
}

Result<ibv_mr*> Port::addDmabuf(void* data, size_t nBytes, const Dmabuf& source) {
  const int access = relaxesOrdering() ? kAccess | IBV_ACCESS_RELAXED_ORDERING : kAccess;
  ibv_mr* region = deviceMemory_.byDmabuf ? verbs_.regDmabufMr(domain_, source.offset, nBytes,
                                                               reinterpret_cast<uint64_t>(data),
                                                               source.descriptor, access)
                                          : nullptr;
  if (region != nullptr) return region;
  return errorf(Status::systemError,
                "%s: cannot make %zu bytes of a GPU at %p known, by the dma-buf of descriptor %d "
                "from byte %llu: %s; NCCL_DMABUF_ENABLE=0 goes by nvidia_peermem instead, "
                "NCCL_NET_GDR_LEVEL=LOC by way of host memory",
                name_.c_str(), nBytes, data, source.descriptor,
                static_cast<unsigned long long>(source.offset),
                deviceMemory_.byDmabuf ? strerror(errno) : "the device takes none");
}

Result<void> Port::removeRegion(ibv_mr* region) {
  if (verbs_.deregMr(region) == 0) return {};
  return errorf(Status::systemError, "%s: cannot take memory back: %s", name_.c_str(),
                strerror(errno));
}

}  // namespace cinch::net::ib
