#include "net_plugin/ib/port.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "fake_ports.h"
#include "net_plugin/log.h"

namespace cinch::net::ib {
namespace {

std::vector<std::string> warnings;
ibv_port_attr portSays;
ibv_async_event eventSaid;
int access;  // of the region that was made last

void keepWarnings(LogLevel level, const char*, int, const char* text) {
  if (level == LogLevel::warn) warnings.emplace_back(text);
}

int sayPort(ibv_context*, uint8_t, ibv_port_attr* out) {
  *out = portSays;
  return 0;
}

// The event, once.
int sayEvent(ibv_context*, ibv_async_event* out) {
  if (eventSaid.event_type == IBV_EVENT_CLIENT_REREGISTER) {
    errno = EAGAIN;
    return -1;
  }
  *out = eventSaid;
  eventSaid.event_type = IBV_EVENT_CLIENT_REREGISTER;
  return 0;
}

class PortTest : public testing::Test {
 protected:
  PortTest() : api_(provider_.api()) {
    warnings.clear();
    setLogSink(keepWarnings);
    portSays = {};
    portSays.state = IBV_PORT_ACTIVE;
    portSays.active_mtu = IBV_MTU_4096;
    portSays.link_layer = IBV_LINK_LAYER_INFINIBAND;
    portSays.active_width = 2;
    portSays.active_speed = 64;
    portSays.lid = 0xabc;
  }
  ~PortTest() override {
    port_.reset();
    setLogSink(nullptr);
    EXPECT_EQ(provider_.leftovers(), "");
  }

  Port& open(const Settings& settings = {}) {
    auto port = Port::open(api_, deviceAt(api_, 1), 1, settings);
    EXPECT_TRUE(port.ok()) << port.error().message;
    port_ = std::move(port.value());
    return *port_;
  }
  std::string refusal(const Settings& settings = {}) {
    const auto port = Port::open(api_, deviceAt(api_, 1), 1, settings);
    EXPECT_FALSE(port.ok());
    return port ? "" : port.error().message;
  }
  Result<ibv_mr*> know(void* data, size_t nBytes) { return port_->regions().acquire(data, nBytes); }

  FakeProvider provider_{FakeOptions{}};
  VerbsApi api_;
  std::unique_ptr<Port> port_;
};

TEST_F(PortTest, SaysWhichAddressItUsesAndWhy) {
  const Port& port = open();
  EXPECT_EQ(port.name(), "fake1:1");
  EXPECT_EQ(port.choice(), "10.1.1.1, RoCE v2, index 1: the first IPv4 address of RoCE v2");
  EXPECT_EQ(port.gidIndex(), 1u);
  EXPECT_EQ(textOf(port.card().gid), "10.1.1.1");
  EXPECT_EQ(port.card().link, LinkKind::ethernet);
  EXPECT_EQ(port.card().mtu, IBV_MTU_1024);
  EXPECT_EQ(port.guid(), 0x101u);
  EXPECT_EQ(port.maxQueueEntries(), 4096u);
  EXPECT_EQ(port.maxCompletions(), 65536u);
  // Whoever looks for events never waits for one.
  EXPECT_NE(fcntl(port.context()->async_fd, F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(PortTest, TakesTheAddressThatIsWished) {
  Settings settings;
  settings.gid.index = 0;
  EXPECT_EQ(open(settings).choice(), "fe80::2, RoCE v2, index 0: NCCL_IB_GID_INDEX");
  EXPECT_EQ(port_->gidIndex(), 0u);
}

TEST_F(PortTest, NamesThePortThatHasNoSuchAddress) {
  Settings settings;
  settings.gid.roceVersion = 1;
  EXPECT_EQ(refusal(settings).find("fake1:1: no GID is a IPv4 address of RoCE v1;"), 0u)
      << refusal(settings);
  settings = {};
  settings.gid.index = 3;
  EXPECT_EQ(refusal(settings),
            "fake1:1: no GID has NCCL_IB_GID_INDEX=3; there are: fe80::2, RoCE v2, index 0; "
            "10.1.1.1, RoCE v2, index 1");
}

// A queue pair has 8 bits for it.
TEST_F(PortTest, LooksAtNoAddressBeyondIndex255) {
  portSays.link_layer = IBV_LINK_LAYER_ETHERNET;
  portSays.gid_tbl_len = 1000;
  api_.queryPort = sayPort;
  static uint32_t most;
  most = 0;
  api_.queryGid = [](ibv_context*, uint32_t, uint32_t index, ibv_gid_entry*, uint32_t, size_t) {
    most = index;
    return ENODATA;
  };
  EXPECT_EQ(refusal().find("fake1:1: no GID"), 0u);
  EXPECT_EQ(most, 255u);
}

TEST_F(PortTest, IsOpenedOnInfinibandByItsLid) {
  api_.queryPort = sayPort;
  const Port& port = open();
  EXPECT_EQ(port.card().link, LinkKind::infiniband);
  EXPECT_EQ(port.card().lid, 0xabc);
  EXPECT_EQ(port.card().mtu, IBV_MTU_4096);
  EXPECT_EQ(port.choice(), "InfiniBand, LID 2748");
}

TEST_F(PortTest, KnowsTheSpeedsOfLinks) {
  struct Link {
    int width;
    int speed;
    int mbps;
  };
  api_.queryPort = sayPort;
  for (const Link& link : {Link{1, 1, 2500},
                           {2, 8, 40000},
                           {2, 16, 56000},
                           {2, 32, 100000},
                           {2, 64, 200000},
                           {2, 128, 400000},
                           {8, 4, 120000},
                           {16, 64, 100000},
                           {1, 32, 25000},
                           {4, 2, 40000},
                           {0, 0, 2500}}) {
    portSays.active_width = static_cast<uint8_t>(link.width);
    portSays.active_speed = static_cast<uint8_t>(link.speed);
    EXPECT_EQ(open().speedMbps(), link.mbps) << link.width << " " << link.speed;
  }
}

TEST_F(PortTest, IsNoneWhileItIsNotActive) {
  provider_.takeDown(1);
  const auto port = Port::open(api_, deviceAt(api_, 1), 1, {});
  ASSERT_TRUE(port.ok());
  EXPECT_EQ(port.value(), nullptr);
  for (const ibv_port_state state : {IBV_PORT_NOP, IBV_PORT_DOWN, IBV_PORT_INIT, IBV_PORT_ARMED}) {
    portSays.state = state;
    api_.queryPort = sayPort;
    EXPECT_EQ(Port::open(api_, deviceAt(api_, 0), 1, {}).value(), nullptr) << state;
  }
}

TEST_F(PortTest, SaysWhatTheDeviceDoesNot) {
  api_.openDevice = [](ibv_device*) -> ibv_context* {
    errno = EACCES;
    return nullptr;
  };
  EXPECT_EQ(refusal(),
            "cannot open InfiniBand device fake1: Permission denied; a container needs "
            "/dev/infiniband");
  api_ = provider_.api();
  api_.queryPort = [](ibv_context*, uint8_t, ibv_port_attr*) {
    errno = EIO;
    return EIO;
  };
  EXPECT_EQ(refusal(), "fake1:1 does not say what it is: Input/output error");
  api_ = provider_.api();
  api_.queryDevice = [](ibv_context*, ibv_device_attr*) {
    errno = ENODEV;
    return ENODEV;
  };
  EXPECT_EQ(refusal(), "fake1:1 does not say what it is: No such device");
  api_ = provider_.api();
  api_.allocPd = [](ibv_context*) -> ibv_pd* {
    errno = ENOMEM;
    return nullptr;
  };
  EXPECT_EQ(refusal(), "fake1:1: no protection domain: Cannot allocate memory");
}

TEST_F(PortTest, IsDownUntilItIsActiveAgain) {
  Port& port = open();
  EXPECT_EQ(port.failureOf(nullptr, {}), "");
  provider_.takeDown(0);
  EXPECT_EQ(port.failureOf(nullptr, {}), "");
  provider_.takeDown(1);
  const std::string why = "the port is down: is its cable or interface?";
  EXPECT_EQ(port.failureOf(nullptr, {}), why);
  EXPECT_EQ(port.failureOf(nullptr, {}), why);
  EXPECT_EQ(warnings, std::vector<std::string>{"CINCH/NET fake1:1: " + why});
  provider_.bringUp(1);
  EXPECT_EQ(port.failureOf(nullptr, {}), "");
}

// Both ports of a device hear of each other.
TEST_F(PortTest, TakesNoEventOfAnotherPortForItsOwn) {
  api_.getAsyncEvent = sayEvent;
  Port& port = open();
  for (const int number : {0, 2, 3}) {
    eventSaid = {};
    eventSaid.event_type = IBV_EVENT_PORT_ERR;
    eventSaid.element.port_num = number;
    EXPECT_EQ(port.failureOf(nullptr, {}), "") << number;
  }
  for (const ibv_event_type type : {IBV_EVENT_QP_FATAL, IBV_EVENT_LID_CHANGE, IBV_EVENT_GID_CHANGE,
                                    IBV_EVENT_SM_CHANGE, IBV_EVENT_PKEY_CHANGE}) {
    eventSaid = {};
    eventSaid.event_type = type;
    eventSaid.element.port_num = 1;
    EXPECT_EQ(port.failureOf(nullptr, {}), "") << type;
  }
  EXPECT_TRUE(warnings.empty());
}

TEST_F(PortTest, HasFailedForGoodWithItsDevice) {
  Port& port = open();
  provider_.killDevice(1);
  provider_.takeDown(1);
  EXPECT_EQ(port.failureOf(nullptr, {}), "the device has failed");
  provider_.bringUp(1);
  EXPECT_EQ(port.failureOf(nullptr, {}), "the device has failed");
}

TEST_F(PortTest, KnowsWhichCompletionQueueHasLostSomethingUntilItIsForgotten) {
  api_.getAsyncEvent = sayEvent;
  Port& port = open();
  ibv_cq one{}, other{};
  eventSaid = {};
  eventSaid.event_type = IBV_EVENT_CQ_ERR;
  eventSaid.element.cq = &one;
  EXPECT_EQ(port.failureOf(&other, {}), "");
  EXPECT_EQ(port.failureOf(&one, {}), "a completion queue has lost completions");
  EXPECT_EQ(port.failureOf(nullptr, {}), "");
  port.forget(&other);
  EXPECT_EQ(port.failureOf(&one, {}), "a completion queue has lost completions");
  port.forget(&one);
  // Another may have its address by now.
  EXPECT_EQ(port.failureOf(&one, {}), "");
}

// What was not looked for before belongs to the one that is destroyed.
TEST_F(PortTest, ForgetsWhatItHasNotReadYet) {
  api_.getAsyncEvent = sayEvent;
  Port& port = open();
  ibv_cq queue{};
  eventSaid = {};
  eventSaid.event_type = IBV_EVENT_CQ_ERR;
  eventSaid.element.cq = &queue;
  port.forget(&queue);
  EXPECT_EQ(port.failureOf(&queue, {}), "");
}

TEST_F(PortTest, LetsThePciOrderAsItIsAsked) {
  api_.regMrIova2 = [](ibv_pd* domain, void* data, size_t nBytes, uint64_t iova, unsigned wanted) {
    access = static_cast<int>(wanted);
    EXPECT_EQ(iova, reinterpret_cast<uint64_t>(data));
    return fakeApi().regMrIova2(domain, data, nBytes, iova, wanted);
  };
  api_.regMr = [](ibv_pd* domain, void* data, size_t nBytes, int wanted) {
    access = wanted;
    return fakeApi().regMr(domain, data, nBytes, wanted);
  };
  alignas(4096) static uint8_t memory[4096];
  for (const bool isRelaxed : {true, false}) {
    for (const bool isNewLibrary : {true, false}) {
      Settings settings;
      settings.relaxedOrdering = isRelaxed;
      open(settings);
      const auto whole = api_.regMrIova2;
      if (!isNewLibrary) api_.regMrIova2 = nullptr;
      ibv_mr* region = know(memory, sizeof memory).value();
      EXPECT_EQ((access & IBV_ACCESS_RELAXED_ORDERING) != 0, isRelaxed && isNewLibrary);
      EXPECT_EQ(access & 0xf,
                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
      EXPECT_TRUE(port_->regions().release(region).ok());
      api_.regMrIova2 = whole;
    }
  }
}

TEST_F(PortTest, SaysWhatMayBeWrongWithMemoryThatCannotBeKnown) {
  Settings settings;
  settings.relaxedOrdering = false;
  open(settings);
  api_.regMr = [](ibv_pd*, void*, size_t, int) -> ibv_mr* {
    errno = ENOMEM;
    return nullptr;
  };
  const Result<ibv_mr*> region = know(reinterpret_cast<void*>(0x10000), 5);
  ASSERT_FALSE(region.ok());
  EXPECT_EQ(region.error().message.find("fake1:1: cannot make 4096 bytes at 0x10000 known: "
                                        "Cannot allocate memory; is `ulimit -l`"),
            0u)
      << region.error().message;
}

TEST(CardPathOf, JoinsPortsAndVirtualFunctions) {
  const std::string bus = "/sys/devices/pci0000:3a/0000:3a:00.0/";
  for (const char* function : {"0000:3b:00.0", "0000:3b:00.1", "0000:3b:01.2", "0000:3b:1f.7"}) {
    EXPECT_EQ(cardPathOf(bus + function), bus + "0000:3b:00.0");
  }
  for (const char* other : {"", "x", "/sys/devices/virtual/net/a0"})
    EXPECT_EQ(cardPathOf(other), other);
}

}  // namespace
}  // namespace cinch::net::ib
