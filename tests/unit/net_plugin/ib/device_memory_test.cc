#include "net_plugin/ib/device_memory.h"

#include <algorithm>
#include <cstdlib>

#include "fake_sysfs.h"
#include "verbs_hosts.h"

namespace cinch::net::ib {
namespace {

constexpr size_t kPage = 4096;

TEST(DeviceMemory, IsResolvedByAnyOfThreeModules) {
  for (const char* module :
       {"/module/nvidia_peermem/version", "/kernel/mm/memory_peers/nv_mem/version",
        "/kernel/mm/memory_peers/nv_mem_nc/version"}) {
    FakeSysfs sysfs;
    EXPECT_FALSE(hasPeerMemory(sysfs.path()));
    sysfs.add("/module/another/version");
    EXPECT_FALSE(hasPeerMemory(sysfs.path()));
    sysfs.add(module);
    EXPECT_TRUE(hasPeerMemory(sysfs.path())) << module;
  }
}

TEST(DeviceMemory, CoversWhatItHas) {
  const DeviceMemory none, address{true, false}, dmabuf{false, true}, both{true, true};
  for (const DeviceMemory& it : {none, address, dmabuf, both}) {
    EXPECT_TRUE(it.covers(it));
    EXPECT_TRUE(it.covers(none));
    EXPECT_TRUE(both.covers(it));
  }
  EXPECT_FALSE(none.covers(address));
  EXPECT_FALSE(address.covers(dmabuf));
  EXPECT_FALSE(dmabuf.covers(both));
  EXPECT_FALSE(none.any());
  EXPECT_TRUE(address.any() && dmabuf.any());
}

Properties propertiesOf(const HostOptions& options) {
  const VerbsHosts hosts(options);
  const Properties properties = hosts.receiving.devices.front()->properties();
  EXPECT_EQ(hosts.provider.nForkInits(), 2u) << "once for each host";
  return properties;
}

// EBADF is what a kernel says that looks at the descriptor of the question.
TEST(DeviceMemory, IsWhatLibraryKernelAndModulesTake) {
  struct Case {
    bool isOld;
    int error;
    bool takes;
  };
  const Case cases[] = {{false, EOPNOTSUPP, false}, {false, EPROTONOSUPPORT, false},
                        {false, EBADF, true},       {false, EINVAL, true},
                        {false, 0, true},           {true, 0, false}};
  for (const Case& it : cases) {
    for (const FakeMemory memory : {FakeMemory::host, FakeMemory::byAddress}) {
      SCOPED_TRACE(std::to_string(it.isOld) + " " + std::to_string(it.error));
      HostOptions options{.memory = memory};
      options.provider.isOld = it.isOld;
      options.provider.dmabufError = it.error;
      const Properties properties = propertiesOf(options);
      EXPECT_EQ(properties.takesDmabuf, it.takes);
      EXPECT_EQ(properties.takesDeviceMemory, memory == FakeMemory::byAddress);
    }
  }
}

// Two connected hosts, and some pages at the receiving one.
class RegistrationTest : public testing::Test {
 protected:
  void connect(const HostOptions& options) {
    hosts_ = std::make_unique<VerbsHosts>(options);
    ASSERT_TRUE(hosts_->connect());
    nSlots_ = hosts_->provider.knownRegions().size();
  }
  FakeProvider& provider() { return hosts_->provider; }
  // What is registered besides a connection's own memory.
  size_t nKnown() { return provider().knownRegions().size() - nSlots_; }
  void expectRefused(const Result<void*>& token, std::initializer_list<const char*> parts) {
    ASSERT_FALSE(token.ok());
    for (const char* part : parts) {
      EXPECT_NE(token.error().message.find(part), std::string::npos) << token.error().message;
    }
    char address[32];
    snprintf(address, sizeof address, "%p", static_cast<void*>(pages_.data()));
    EXPECT_NE(token.error().message.find(address), std::string::npos) << token.error().message;
    EXPECT_EQ(nKnown(), 0u);
  }

  Pages pages_ = Pages(4 * kPage);
  std::unique_ptr<VerbsHosts> hosts_;
  size_t nSlots_ = 0;
};

// The rings are looked at without waiting for a completion, or before the next: see addRegion().
TEST_F(RegistrationTest, OrdersTheRingsAndRelaxesBuffersWhereThatIsToBeHad) {
  for (const bool wanted : {false, true}) {
    for (const bool has : {false, true}) {
      HostOptions options{.memory = FakeMemory::byDmabuf};
      options.provider.relaxesOrdering = has;
      options.change = [&](Settings& settings) { settings.relaxedOrdering = wanted; };
      connect(options);
      const auto isRelaxed = [](const FakeProvider::Known& region) {
        return (region.access & IBV_ACCESS_RELAXED_ORDERING) != 0;
      };
      EXPECT_EQ(std::ranges::count_if(provider().knownRegions(), isRelaxed), 0);
      Pages gpu(kPage);
      const int descriptor = provider().exportDmabuf(gpu.data(), kPage);
      void* host = hosts_->sender->registerMemory(pages_.data(), kPage, MemoryKind::host).value();
      void* device = hosts_->receiver->registerDmabuf(gpu.data(), kPage, {descriptor, 0}).value();
      const auto all = provider().knownRegions();
      EXPECT_EQ(std::ranges::count_if(all, isRelaxed), wanted && has ? 4 : 0) << "at both ports";
      EXPECT_TRUE(hosts_->sender->deregisterMemory(host).ok());
      EXPECT_TRUE(hosts_->receiver->deregisterMemory(device).ok());
      EXPECT_EQ(nKnown(), 0u);
      hosts_.reset();
    }
  }
}

TEST_F(RegistrationTest, TakesPartsOfDmabufsAtEachPortAndForEachCaller) {
  connect({.memory = FakeMemory::byDmabuf});
  const int descriptor = provider().exportDmabuf(pages_.data(), pages_.size());
  std::vector<void*> tokens;
  for (int i = 0; i < 3; ++i) {
    const auto token =
        hosts_->receiver->registerDmabuf(&pages_[kPage], 2 * kPage - 100, {descriptor, kPage});
    ASSERT_TRUE(token.ok()) << token.error().message;
    tokens.push_back(token.value());
    EXPECT_EQ(nKnown(), 2 * tokens.size());
  }
  const FakeProvider::Known known = provider().knownRegions().back();
  EXPECT_EQ(known.data, &pages_[kPage]);
  EXPECT_EQ(known.nBytes, 2 * kPage - 100);
  for (void* token : tokens) EXPECT_TRUE(hosts_->receiver->deregisterMemory(token).ok());
  EXPECT_EQ(nKnown(), 0u);
}

TEST_F(RegistrationTest, SaysWhyADmabufIsNotTaken) {
  connect({.memory = FakeMemory::byDmabuf});
  const int descriptor = provider().exportDmabuf(pages_.data(), pages_.size());
  const auto add = [&](size_t nBytes, int fd, uint64_t offset) {
    return hosts_->receiver->registerDmabuf(pages_.data(), nBytes, {fd, offset});
  };
  expectRefused(add(kPage, 77, 0), {"fake2:1", "4096 bytes", "descriptor 77", strerror(EBADF),
                                    "NCCL_DMABUF_ENABLE=0", "NCCL_NET_GDR_LEVEL=LOC"});
  expectRefused(add(kPage, descriptor, 5), {"from byte 5", strerror(EINVAL)});
  expectRefused(add(5 * kPage, descriptor, 0), {"20480 bytes", strerror(EINVAL)});
  provider().refuseRegions(ENOMEM);
  expectRefused(add(kPage, descriptor, 0), {strerror(ENOMEM)});
}

TEST_F(RegistrationTest, OfADmabufNeedsADeviceThatTakesThem) {
  connect({});
  const int descriptor = provider().exportDmabuf(pages_.data(), pages_.size());
  expectRefused(hosts_->receiver->registerDmabuf(pages_.data(), kPage, {descriptor, 0}),
                {"fake2:1", "the device takes none"});
}

TEST_F(RegistrationTest, OfAGpusAddressNeedsAModule) {
  connect({.memory = FakeMemory::byDmabuf});
  expectRefused(hosts_->receiver->registerMemory(pages_.data(), kPage, MemoryKind::device),
                {"fake2:1", "4096 bytes", "load nvidia_peermem", "NCCL_NET_GDR_LEVEL=LOC"});
}

TEST_F(RegistrationTest, SaysWhyAGpusAddressIsNotTaken) {
  connect({.memory = FakeMemory::byAddress});
  provider().addGpu(pages_.data(), pages_.size());
  const auto token = hosts_->receiver->registerMemory(pages_.data(), kPage, MemoryKind::device);
  ASSERT_TRUE(token.ok()) << token.error().message;
  EXPECT_TRUE(hosts_->receiver->deregisterMemory(token.value()).ok());
  provider().refuseRegions(ENOMEM);
  expectRefused(
      hosts_->receiver->registerMemory(pages_.data(), kPage, MemoryKind::device),
      {"fake2:1", "4096 bytes", strerror(ENOMEM), "ulimit -l", "BAR1", "NCCL_NET_GDR_LEVEL=LOC"});
  const auto host = hosts_->receiver->registerMemory(pages_.data(), kPage, MemoryKind::host);
  expectRefused(host, {"ulimit -l"});
  EXPECT_EQ(host.error().message.find("GPU"), std::string::npos) << host.error().message;
}

}  // namespace
}  // namespace cinch::net::ib
