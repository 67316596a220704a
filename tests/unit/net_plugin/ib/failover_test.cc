// Devices that fail in the middle of traffic: what is received is right, and nothing hangs. Where a
// second device is there everything arrives.
#include <chrono>
#include <functional>
#include <thread>

#include "verbs_hosts.h"

namespace cinch::net::ib {
namespace {

using Fault = std::function<void(FakeProvider& provider, int device)>;

struct NamedFault {
  const char* name;
  Fault cause;
};

const NamedFault kFaults[] = {
    {"port down", [](FakeProvider& it, int device) { it.takeDown(device); }},
    {"device dead", [](FakeProvider& it, int device) { it.killDevice(device); }},
    {"retries exceeded",
     [](FakeProvider& it, int device) { it.failQueues(device, IBV_WC_RETRY_EXC_ERR); }},
    {"flushed", [](FakeProvider& it, int device) { it.failQueues(device, IBV_WC_WR_FLUSH_ERR); }},
    {"fatal error", [](FakeProvider& it, int device) { it.failQueues(device, IBV_WC_FATAL_ERR); }},
    {"completions overrun", [](FakeProvider& it, int device) { it.overrun(device); }},
    {"answers lost", [](FakeProvider& it, int device) { it.setFaults(0, .05, device); }},
};

// One run: traffic, and after some visits a fault of a device of the first lane, at either side.
struct Course {
  explicit Course(uint64_t seed) : random(seed) {
    options.nQueues = size_t{1} << random() % 3;
    options.splits = random() % 2 != 0;
    options.provider.seed = seed;
    options.provider.maxDelay = static_cast<int>(random() % 6);
    options.provider.postFailure = random() % 2 == 0 ? 0 : .1;
    fault = &kFaults[random() % std::size(kFaults)];
    device = random() % 2 == 0 ? 0 : 2;
    visits = random() % 400;
    options.memory = static_cast<FakeMemory>(random() % 3);
  }

  std::mt19937_64 random;
  HostOptions options;
  const NamedFault* fault;
  int device;
  size_t visits;
};

// What one seed makes of it, from 0 on.
uint64_t nSeeds() {
  const char* text = getenv("CINCH_TEST_SEEDS");
  return text == nullptr ? 100 : std::stoul(text);
}

TEST(VerbsFailover, EverythingArrivesOverTheOtherDevice) {
  for (uint64_t seed = 0; seed < nSeeds(); ++seed) {
    const Course run(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + run.fault->name + " of device " +
                 std::to_string(run.device));
    VerbsHosts hosts(run.options);
    ASSERT_TRUE(hosts.connect());
    Traffic traffic(hosts, {.seed = seed, .nGroups = 60, .maxBytes = 6000});
    for (size_t i = 0; i < run.visits && traffic.visit(); ++i) {
    }
    run.fault->cause(hosts.provider, run.device);
    // Lost answers end once the first lane is lost: a second loss would be one too many.
    while (traffic.visit() &&
           hosts.provider.bytesWritten(1) + hosts.provider.bytesWritten(3) == 0) {
    }
    hosts.provider.setFaults(0, 0);
    traffic.run();
    EXPECT_TRUE(traffic.isComplete()) << traffic.sendError() << "; " << traffic.receiveError();
  }
}

TEST(VerbsFailover, EndsWithAnErrorAtBothSidesWhereNoDeviceIsLeft) {
  for (uint64_t seed = 0; seed < nSeeds() / 5; ++seed) {
    const Course run(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    VerbsHosts hosts(run.options);
    ASSERT_TRUE(hosts.connect());
    Traffic traffic(hosts, {.seed = seed, .nGroups = 300, .maxBytes = 6000});
    for (size_t i = 0; i < run.visits && traffic.visit(); ++i) {
    }
    hosts.provider.killDevice(run.device);
    for (size_t i = 0; i < run.visits / 2 && traffic.visit(); ++i) {
    }
    hosts.provider.killDevice(seed % 2 == 0 ? 1 : 3);
    traffic.run();
    ASSERT_FALSE(traffic.isComplete());
    EXPECT_NE(traffic.sendError().find("fake"), std::string::npos) << traffic.sendError();
    EXPECT_NE(traffic.receiveError().find("fake"), std::string::npos) << traffic.receiveError();
  }
}

TEST(VerbsFailover, OneDeviceOnlyNamesThePortAndTheCause) {
  VerbsHosts hosts({.devicesPerHost = 1});
  ASSERT_TRUE(hosts.connect());
  Traffic traffic(hosts, {});
  hosts.provider.takeDown(0);
  traffic.run();
  EXPECT_NE(traffic.sendError().find("fake0:1: the port is down"), std::string::npos)
      << traffic.sendError();
  EXPECT_NE(traffic.receiveError().find("fake2:1"), std::string::npos) << traffic.receiveError();
}

// As a cable that is plugged in again: the device's own retries bridge it.
TEST(VerbsFailover, APortThatIsSoonBackLosesNothing) {
  for (const int nDevices : {1, 2}) {
    for (const int device : {0, 2}) {
      VerbsHosts hosts({.portPatience = std::chrono::minutes(1),
                        .devicesPerHost = nDevices,
                        .provider = {.nDevices = 4, .patience = 100000}});
      ASSERT_TRUE(hosts.connect());
      Traffic traffic(hosts, {});
      for (int i = 0; i < 20; ++i) traffic.visit();
      hosts.provider.takeDown(device);
      for (int i = 0; i < 200; ++i) ASSERT_TRUE(traffic.visit()) << traffic.sendError();
      std::this_thread::sleep_for(std::chrono::milliseconds(15));  // until it is looked at
      for (int i = 0; i < 200; ++i) ASSERT_TRUE(traffic.visit()) << traffic.sendError();
      hosts.provider.bringUp(device);
      traffic.run();
      EXPECT_TRUE(traffic.isComplete()) << traffic.sendError() << "; " << traffic.receiveError();
      EXPECT_EQ(hosts.provider.bytesWritten(1) + hosts.provider.bytesWritten(3), 0u);
    }
  }
}

// The device of the sending side never tells that the last messages are there.
TEST(VerbsFailover, WhatArrivedBeforeTheReceiverClosedIsSent) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    VerbsHosts hosts({.devicesPerHost = 1, .provider = {.seed = seed, .nDevices = 4}});
    ASSERT_TRUE(hosts.connect());
    Traffic traffic(hosts, {.seed = seed, .nGroups = 10, .maxGroup = 1});
    while (traffic.nReceived() < 10 && traffic.visit()) {
    }
    hosts.receiver.reset();
    while (traffic.sendError().empty() && !traffic.isComplete()) traffic.visitSender();
    EXPECT_TRUE(traffic.isComplete()) << traffic.sendError();
  }
}

// Its owner has all and asks for nothing more, while the device of the sending side does not tell
// it that the last messages are there: as at the end of a program, or between its collectives.
TEST(VerbsFailover, WhatArrivedIsSentThoughNobodyCallsTheReceiver) {
  size_t nLost = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VerbsHosts hosts({.nQueues = 1 + seed % 2, .provider = {.seed = seed, .nDevices = 4}});
    ASSERT_TRUE(hosts.connect());
    Traffic traffic(hosts, {.seed = seed, .nGroups = 1});
    hosts.provider.setFaults(0, .04, 0);
    while (traffic.nReceived() == 0 && traffic.visit()) {
    }
    hosts.provider.setFaults(0, 0);
    for (int i = 0; i < 1000 && !traffic.isComplete(); ++i) traffic.visitSender();
    nLost += traffic.isComplete() ? 0 : 1;
    for (int i = 0; i < 1000 && !traffic.isComplete(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // until they listen to each other
      hosts.caretaker.visitAll();
      traffic.visitSender();
    }
    EXPECT_TRUE(traffic.isComplete()) << traffic.sendError();
  }
  EXPECT_GT(nLost, 0u);
}

// NCCL frees buffers before it closes connections: nothing may land in them after.
TEST(VerbsFailover, MemoryThatIsTakenBackIsNotTouchedAnyMore) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    VerbsHosts hosts({.provider = {.seed = seed, .nDevices = 4}});
    ASSERT_TRUE(hosts.connect());
    std::vector<uint8_t> from(100000, 1), to(100000, 2);
    void* source = hosts.sender->registerMemory(from.data(), from.size(), MemoryKind::host).value();
    void* sink = hosts.receiver->registerMemory(to.data(), to.size(), MemoryKind::host).value();
    const Buffer buffer = {to.data(), to.size(), 0, sink};
    Request* receive = hosts.receiver->receive({&buffer, 1}).value();
    ASSERT_NE(receive, nullptr);
    Request* send = nullptr;
    while (send == nullptr) send = hosts.sender->send(from.data(), from.size(), 0, source).value();
    size_t nBytes = 0;
    for (uint64_t i = 0; i < seed % 3; ++i) ASSERT_FALSE(receive->test(&nBytes).value());
    EXPECT_TRUE(hosts.receiver->deregisterMemory(sink).ok());
    const std::vector<uint8_t> before = to;
    for (int i = 0; i < 1000; ++i) hosts.provider.step();
    EXPECT_EQ(to, before);
    EXPECT_FALSE(receive->test(&nBytes).ok());
    EXPECT_TRUE(hosts.sender->deregisterMemory(source).ok());
  }
}

// Once a request has ended with an error its memory may serve for something else, while the device
// of a peer that knows nothing of it could still write there.
TEST(VerbsFailover, MemoryOfARequestThatEndedWithAnErrorIsNotTouchedAnyMore) {
  VerbsHosts hosts({.provider = {.nDevices = 4, .maxDelay = 50}});
  ASSERT_TRUE(hosts.connect());
  std::vector<uint8_t> from(100000, 1), to(100000, 2);
  void* source = hosts.sender->registerMemory(from.data(), from.size(), MemoryKind::host).value();
  void* sink = hosts.receiver->registerMemory(to.data(), to.size(), MemoryKind::host).value();
  // The same pages, as another connection would know them: the device may go on writing to them.
  auto& regions = hosts.receiving.ports.front()->regions();
  ibv_mr* const shared = regions.acquire(to.data(), to.size()).value();
  const Buffer buffer = {to.data(), to.size(), 0, sink};
  Request* receive = hosts.receiver->receive({&buffer, 1}).value();
  ASSERT_NE(receive, nullptr);
  Request* send = nullptr;
  while (send == nullptr) send = hosts.sender->send(from.data(), from.size(), 0, source).value();
  hosts.sockets.cut();
  std::this_thread::sleep_for(std::chrono::milliseconds(15));  // until the peer is listened to
  size_t nBytes = 0;
  EXPECT_FALSE(receive->test(&nBytes).ok());
  const std::vector<uint8_t> before = to;
  for (int i = 0; i < 1000; ++i) hosts.provider.step();
  EXPECT_EQ(to, before);
  EXPECT_TRUE(regions.release(shared).ok());
  EXPECT_TRUE(hosts.receiver->deregisterMemory(sink).ok());
  EXPECT_TRUE(hosts.sender->deregisterMemory(source).ok());
}

}  // namespace
}  // namespace cinch::net::ib
