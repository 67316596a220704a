#include "net_plugin/ib/device.h"

#include <cerrno>

#include "fake_ports.h"
#include "net_plugin/ib/channel_control.h"
#include "net_plugin/log.h"
#include "verbs_hosts.h"

namespace cinch::net::ib {
namespace {

std::vector<std::string> lines;

void keep(LogLevel level, const char*, int, const char* text) {
  lines.push_back(std::string(level == LogLevel::warn ? "WARN " : "INFO ") + text);
}

class DeviceTest : public testing::Test {
 protected:
  DeviceTest() : api_(provider_.api()) {
    lines.clear();
    setLogSink(keep);
  }
  ~DeviceTest() override {
    setLogSink(nullptr);
    EXPECT_EQ(provider_.leftovers(), "");
  }

  Devices open(const std::string& list, size_t nQueues = 1) {
    Settings settings;
    settings.devices = list;
    settings.nQueues = nQueues;
    return openDevices(api_, settings, sockets_, caretaker_);
  }
  std::string namesOf(const std::string& list) {
    const Devices all = open(list);
    EXPECT_EQ(all.ports.size(), all.devices.size());
    std::string names;
    for (const auto& device : all.devices) names += std::string(device->properties().name) + " ";
    return names;
  }

  Caretaker caretaker_;
  FakeProvider provider_{FakeOptions{.nDevices = 12}};
  VerbsApi api_;
  MemoryDevice sockets_;
};

TEST_F(DeviceTest, AreThoseThatTheListMeans) {
  const std::string some = "fake0:1 fake1:1 fake2:1 fake3:1 fake4:1 fake5:1 fake6:1 fake7:1 ";
  const std::string all = some + "fake8:1 fake9:1 fake10:1 fake11:1 ";
  EXPECT_EQ(namesOf(""), all);
  EXPECT_EQ(namesOf("fake"), all);
  EXPECT_EQ(namesOf("fake1"), "fake1:1 fake10:1 fake11:1 ");
  EXPECT_EQ(namesOf("=fake1"), "fake1:1 ");
  EXPECT_EQ(namesOf("^fake8,fake9,fake1"),
            "fake0:1 fake2:1 fake3:1 fake4:1 fake5:1 fake6:1 fake7:1 ");
  EXPECT_EQ(namesOf("^=fake8,fake9,fake10,fake11"), some);
  EXPECT_EQ(namesOf("fake3:1,fake4:2"), "fake3:1 ");
  EXPECT_EQ(namesOf("mlx5"), "");
}

TEST_F(DeviceTest, SaysWhatItIs) {
  const Devices all = open("=fake7");
  ASSERT_EQ(all.devices.size(), 1u);
  const Properties& properties = all.devices[0]->properties();
  EXPECT_STREQ(properties.name, "fake7:1");
  EXPECT_EQ(properties.pciPath, nullptr);
  EXPECT_EQ(properties.guid, 0x107u);
  EXPECT_EQ(properties.speedMbps, 25000);
  EXPECT_EQ(properties.port, 1);
  EXPECT_EQ(properties.maxReceives, 8);
  EXPECT_GT(properties.maxConnections, 1000);
  EXPECT_EQ(properties.maxBytes, size_t{1} << 30);
  EXPECT_EQ(lines, std::vector<std::string>{"INFO CINCH/NET fake7:1 is active: 10.1.7.1, RoCE v2, "
                                            "index 1: the first IPv4 address of RoCE v2; "
                                            "host memory only"});
}

TEST_F(DeviceTest, LeavesOutPortsThatAreDownInSilence) {
  provider_.takeDown(0);
  EXPECT_EQ(namesOf("=fake0,fake1"), "fake1:1 ");
  EXPECT_EQ(lines.size(), 1u);
}

TEST_F(DeviceTest, LeavesOutAndNamesWhatCannotBeOpened) {
  api_.openDevice = [](ibv_device* device) -> ibv_context* {
    if (strcmp(device->name, "fake1") != 0) return fakeApi().openDevice(device);
    errno = EACCES;
    return nullptr;
  };
  EXPECT_EQ(namesOf("=fake1,fake2"), "fake2:1 ");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0],
            "WARN CINCH/NET cannot open InfiniBand device fake1: Permission denied; a container "
            "needs /dev/infiniband");
}

TEST_F(DeviceTest, AreNoneWhereThereIsNoList) {
  api_.getDeviceList = [](int*) -> ibv_device** {
    errno = ENOSYS;
    return nullptr;
  };
  EXPECT_EQ(namesOf(""), "");
  EXPECT_TRUE(lines.empty());
}

// Devices of two ports, of which the first has no address of the wished kind.
class TwoPortsTest : public DeviceTest {
 protected:
  TwoPortsTest() {
    api_.queryDevice = [](ibv_context* context, ibv_device_attr* out) {
      fakeApi().queryDevice(context, out);
      out->phys_port_cnt = 2;
      return 0;
    };
    api_.queryPort = [](ibv_context* context, uint8_t port, ibv_port_attr* out) {
      return port > 2 ? EINVAL : fakeApi().queryPort(context, 1, out);
    };
  }
};

TEST_F(TwoPortsTest, AreDevicesOfTheirOwn) {
  EXPECT_EQ(namesOf("=fake0,fake1:2"), "fake0:1 fake0:2 fake1:2 ");
}

TEST_F(TwoPortsTest, AreUsedEachWithoutTheOther) {
  static int bad;
  api_.queryGid = [](ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                     uint32_t flags, size_t n) {
    if (static_cast<int>(port) == bad) return ENODATA;
    return fakeApi().queryGid(context, port, index, entry, flags, n);
  };
  for (const int port : {1, 2}) {
    lines.clear();
    bad = port;
    EXPECT_EQ(namesOf("=fake0"), port == 1 ? "fake0:2 " : "fake0:1 ");
    const std::string start = "WARN CINCH/NET fake0:" + std::to_string(port) + ": no GID";
    EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [&](const auto& line) {
      return line.starts_with(start);
    })) << testing::PrintToString(lines);
  }
}

TEST_F(DeviceTest, HaveNoSecondPortWhereThereIsOne) {
  EXPECT_EQ(namesOf("=fake0:2"), "");
  EXPECT_TRUE(lines.empty()) << lines[0];
}

// A pair of devices, and how far a connection of them comes.
struct Opening {
  void run(int steps = 100) {
    for (int i = 0; i < steps && connectError.empty() && acceptError.empty(); ++i) step();
    // What one side has met the other learns soon.
    for (int i = 0; i < 10; ++i) step();
  }
  void step() {
    if (sender == nullptr && connectError.empty()) {
      auto connected = from->connect(handle, -1);
      if (!connected) connectError = connected.error().message;
      if (connected) sender = std::move(connected.value());
    }
    if (listener != nullptr && receiver == nullptr && acceptError.empty()) {
      auto accepted = listener->accept();
      if (!accepted) acceptError = accepted.error().message;
      if (accepted) receiver = std::move(accepted.value());
    }
  }
  bool isComplete() const { return sender != nullptr && receiver != nullptr; }

  Device* from = nullptr;
  Handle handle{};
  std::unique_ptr<Listener> listener{};
  std::unique_ptr<SendConnection> sender{};
  std::unique_ptr<ReceiveConnection> receiver{};
  std::string connectError{};
  std::string acceptError{};
};

TEST_F(DeviceTest, NamesBothSidesWhereThePeerListensOverSockets) {
  const Devices all = open("=fake0");
  Opening opening{.from = all.devices[0].get()};
  opening.listener = std::move(sockets_.listen(opening.handle).value());
  opening.run();
  EXPECT_EQ(opening.connectError,
            "the peer at 0.0.0.0 listens over sockets, this process sends over InfiniBand "
            "verbs: set CINCH_NET=socket or CINCH_NET=verbs alike on all ranks");
}

TEST_F(DeviceTest, SaysWhatAHandleIsNot) {
  const Devices all = open("=fake0");
  for (const int byte : {0, 0xff, 0x5a}) {
    Opening opening{.from = all.devices[0].get()};
    opening.handle.fill(static_cast<std::byte>(byte));
    opening.run(1);
    EXPECT_EQ(opening.connectError,
              "the handle was not made by Cinch's net plugin: do all ranks use it, and the same "
              "version of it?");
  }
}

// Both learn of it, with a text that says which is whose.
TEST_F(DeviceTest, NamesBothNumbersOfQueuesAtBothSides) {
  const Devices ours = open("=fake0", 2);
  const Devices theirs = open("=fake2", 4);
  Opening opening{.from = ours.devices[0].get()};
  opening.listener = std::move(theirs.devices[0]->listen(opening.handle).value());
  opening.run();
  const std::string text =
      "this process has 4 queues for a connection, its peer 2: set NCCL_IB_QPS_PER_CONNECTION "
      "alike on all ranks";
  EXPECT_EQ(opening.acceptError, text);
  EXPECT_EQ(opening.connectError, "the peer refuses the connection: " + text);
}

// The peer has said its handle and no card that can be read.
TEST_F(DeviceTest, TellsAPeerOfAnotherVersionWhyItIsRefused) {
  const Devices ours = open("=fake0");
  Opening opening{.from = ours.devices[0].get()};
  opening.listener = std::move(ours.devices[0]->listen(opening.handle).value());
  Handle back{};
  const auto wayBack = std::move(sockets_.listen(back).value());
  Handle sockets = opening.handle;
  const auto out = std::move(sockets_.connect(sockets, -1).value());
  const std::vector<uint8_t> card = {'C', 'n', 'I', 'B', 9, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0};
  std::vector<uint8_t> hello(kHandleBytes);
  memcpy(hello.data(), back.data(), kHandleBytes);
  hello.insert(hello.end(), card.begin(), card.end());
  ASSERT_TRUE(out->send(hello.data(), hello.size(), 0, nullptr).ok());
  std::string error;
  for (int i = 0; i < 10 && error.empty(); ++i) {
    const auto accepted = opening.listener->accept();
    if (!accepted) error = accepted.error().message;
  }
  EXPECT_EQ(error.find("the peer speaks version 9 of the protocol"), 0u) << error;
  auto in = std::move(wayBack->accept().value());
  ASSERT_NE(in, nullptr);
  ChannelControl control;
  control.setIn(std::move(in));
  const auto heard = control.hear();
  ASSERT_TRUE(heard.ok() && heard.value());
  EXPECT_EQ(std::get<LaneLost>(parseControl(*heard.value()).value()).why, error);
}

// As where a host's second port is of another network: the kernel finds no way to its peer.
TEST_F(DeviceTest, ALaneThatLeadsNowhereIsLeftOutWhicheverSideFindsIt) {
  static VerbsApi fake;
  static std::string unreachable;
  fake = api_;
  api_.modifyQp = [](ibv_qp* pair, ibv_qp_attr* to, int which) {
    const bool isIt = fake.getDeviceName(pair->context->device) == unreachable;
    return to->qp_state == IBV_QPS_RTR && isIt ? EHOSTUNREACH : fake.modifyQp(pair, to, which);
  };
  for (const char* device : {"fake1", "fake3"}) {
    unreachable = device;
    lines.clear();
    const Devices ours = open("=fake0,fake1");
    const Devices theirs = open("=fake2,fake3");
    Opening opening{.from = ours.devices[0].get()};
    opening.listener = std::move(theirs.devices[0]->listen(opening.handle).value());
    opening.run();
    EXPECT_EQ(opening.connectError + opening.acceptError, "");
    const std::string warning = "WARN CINCH/NET " + unreachable +
                                ":1: a queue pair cannot receive: No route to host: the connection "
                                "cannot go on over this port";
    EXPECT_EQ(std::count(lines.begin(), lines.end(), warning), 1);
    for (const std::string& line : lines) {
      EXPECT_EQ(line.find("failing over"), std::string::npos) << line;
    }
  }
  unreachable = "fake0";
  const Devices ours = open("=fake0,fake1");
  const Devices theirs = open("=fake2,fake3");
  Opening opening{.from = ours.devices[0].get()};
  opening.listener = std::move(theirs.devices[0]->listen(opening.handle).value());
  opening.run();
  EXPECT_EQ(opening.connectError, "fake0:1: a queue pair cannot receive: No route to host");
}

// The peer has heard our greeting, and calls back no more.
TEST_F(DeviceTest, APeerThatDiesBeforeItCallsBackIsAnError) {
  const Devices ours = open("=fake0");
  const Devices theirs = open("=fake2");
  Handle handle{};
  auto listener = std::move(theirs.devices[0]->listen(handle).value());
  for (int i = 0; i < 3; ++i) {
    const auto connected = ours.devices[0]->connect(handle, -1);
    ASSERT_TRUE(connected.ok()) << connected.error().message;
    ASSERT_EQ(connected.value(), nullptr);
  }
  ASSERT_TRUE(listener->accept().ok());
  listener.reset();
  const auto connected = ours.devices[0]->connect(handle, -1);
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().message, "the receiver is gone");
}

struct Sides {
  const char* ours;
  const char* theirs;
  bool isTwoLanes;
};

// A side with fewer ports decides over how many the connection may go on.
TEST_F(DeviceTest, ConnectsHostsOfDifferentNumbersOfDevices) {
  for (const Sides& sides : {Sides{"=fake0", "=fake4", false},
                             {"=fake0", "=fake4,fake5,fake6,fake7,fake8", false},
                             {"=fake0,fake1,fake2,fake3,fake9,fake10", "=fake4", false},
                             {"=fake0,fake1,fake2", "=fake4,fake5", true}}) {
    SCOPED_TRACE(sides.theirs);
    const Devices ours = open(sides.ours);
    const Devices theirs = open(sides.theirs);
    lines.clear();
    Opening opening{.from = ours.devices[0].get()};
    opening.listener = std::move(theirs.devices[0]->listen(opening.handle).value());
    opening.run();
    ASSERT_TRUE(opening.isComplete()) << opening.connectError << opening.acceptError;
    ASSERT_EQ(lines.size(), 2u);
    for (const std::string& line : lines) {
      EXPECT_EQ(line.find("failing over to") != std::string::npos, sides.isTwoLanes) << line;
    }
  }
}

// With 8 queues at each port a card has room for two.
TEST_F(DeviceTest, HasAsManyLanesAsFitOnACard) {
  const Devices ours = open("=fake0,fake1,fake2,fake3", 8);
  const Devices theirs = open("=fake4,fake5,fake6,fake7", 8);
  Opening opening{.from = ours.devices[0].get()};
  opening.listener = std::move(theirs.devices[0]->listen(opening.handle).value());
  opening.run();
  EXPECT_TRUE(opening.isComplete()) << opening.connectError << opening.acceptError;
}

TEST_F(DeviceTest, StartsAnewWhereAHandleComesWithAStrangersState) {
  const Devices ours = open("=fake0");
  const Devices theirs = open("=fake1");
  Opening opening{.from = ours.devices[0].get()};
  opening.listener = std::move(theirs.devices[0]->listen(opening.handle).value());
  setHandleState(opening.handle, reinterpret_cast<void*>(0x1234));
  opening.run();
  EXPECT_TRUE(opening.isComplete()) << opening.connectError;
  EXPECT_EQ(handleState(opening.handle), nullptr);
}

// Even that of a connection which is just being made here, to somebody else or to the same.
TEST_F(DeviceTest, TakesNoConnectionForAnother) {
  const Devices ours = open("=fake0");
  const Devices theirs = open("=fake1");
  Opening one{.from = ours.devices[0].get()};
  one.listener = std::move(theirs.devices[0]->listen(one.handle).value());
  const Handle fresh = one.handle;
  Opening other{.from = ours.devices[0].get()};
  other.listener = std::move(theirs.devices[0]->listen(other.handle).value());
  one.step();
  ASSERT_NE(handleState(one.handle), nullptr);
  setHandleState(other.handle, handleState(one.handle));
  other.step();
  EXPECT_NE(handleState(other.handle), handleState(one.handle));
  other.run();
  one.run();
  EXPECT_TRUE(one.isComplete()) << one.connectError << one.acceptError;
  EXPECT_TRUE(other.isComplete()) << other.connectError << other.acceptError;
  Handle first = fresh;
  Handle second = fresh;
  EXPECT_TRUE(ours.devices[0]->connect(first, -1).ok());
  EXPECT_TRUE(ours.devices[0]->connect(second, -1).ok());
  EXPECT_NE(handleState(second), nullptr);
  EXPECT_NE(handleState(first), handleState(second));
}

TEST_F(DeviceTest, ConnectsManyAtATimeEachToItsOwn) {
  const Devices ours = open("=fake0");
  const Devices theirs = open("=fake1,fake2");
  std::vector<Opening> all(20);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].from = ours.devices[0].get();
    all[i].listener = std::move(theirs.devices[i % 2]->listen(all[i].handle).value());
  }
  for (int round = 0; round < 10; ++round) {
    for (Opening& opening : all) opening.step();
  }
  for (const Opening& opening : all) EXPECT_TRUE(opening.isComplete()) << opening.connectError;
}

}  // namespace
}  // namespace cinch::net::ib
