// What is received in the memory of a GPU is there once it is flushed, whatever fails meanwhile.
#include <chrono>

#include "net_plugin/ib/slots.h"
#include "verbs_hosts.h"

namespace cinch::net::ib {
namespace {

constexpr size_t kFlushedBytes = 1000;

// One message that has arrived in a GPU's memory, where nobody sees it yet.
class FlushTest : public testing::Test {
 protected:
  void TearDown() override {
    if (hosts_ == nullptr) return;
    hosts_->receiver.reset();
    hosts_->sender.reset();
    hosts_->provider.forgetGpus();
    hosts_.reset();
  }

  void deliver(HostOptions options = {}) {
    if (options.memory == FakeMemory::host) options.memory = FakeMemory::byDmabuf;
    hosts_ = std::make_unique<VerbsHosts>(options);
    ASSERT_TRUE(hosts_->connect());
    void* source =
        hosts_->sender->registerMemory(from_.data(), kFlushedBytes, MemoryKind::host).value();
    const int descriptor = provider().exportDmabuf(to_.data(), to_.size());
    token_ = hosts_->receiver->registerDmabuf(to_.data(), to_.size(), {descriptor, 0}).value();
    const Buffer buffer = {to_.data(), kFlushedBytes, 0, token_};
    Request* receive = hosts_->receiver->receive({&buffer, 1}).value();
    Request* send = nullptr;
    while (send == nullptr)
      send = hosts_->sender->send(from_.data(), kFlushedBytes, 0, source).value();
    size_t nBytes = 0;
    for (bool isSent = false, isHere = false; !isSent || !isHere;) {
      if (!isSent) isSent = send->test(&nBytes).value();
      if (!isHere) isHere = receive->test(&nBytes).value();
    }
    EXPECT_NE(to_, from_) << "the provider does not hide anything";
  }

  Result<Request*> flush(size_t nBytes = kFlushedBytes) {
    const Buffer buffer = {to_.data(), nBytes, 0, token_};
    return hosts_->receiver->flush({&buffer, 1});
  }
  // How it ends when only the receiving side does anything: empty where it is done.
  std::string wait(Request& request) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      size_t none = 0;
      const Result<bool> isDone = request.test(&none);
      if (!isDone) return isDone.error().message;
      if (isDone.value()) return "";
    }
    return "it hangs";
  }
  FakeProvider& provider() { return hosts_->provider; }

  Pages from_ = Pages(kFlushedBytes, 7);
  Pages to_ = Pages(kFlushedBytes, 1);
  std::unique_ptr<VerbsHosts> hosts_;
  void* token_ = nullptr;
};

TEST_F(FlushTest, MakesVisibleWhatWasReceived) {
  deliver();
  const Result<Request*> request = flush();
  ASSERT_TRUE(request.ok() && request.value() != nullptr);
  EXPECT_EQ(wait(*request.value()), "");
  EXPECT_EQ(to_, from_);
  EXPECT_EQ(provider().nReads(2), 1u);
}

TEST_F(FlushTest, ReadsTheLastBufferThatGotAnything) {
  deliver();
  const Buffer buffers[] = {
      {to_.data(), 0, 0, nullptr}, {to_.data(), 10, 0, token_}, {nullptr, 0, 0, nullptr}};
  const Result<Request*> request = hosts_->receiver->flush(buffers);
  ASSERT_TRUE(request.ok() && request.value() != nullptr);
  EXPECT_EQ(wait(*request.value()), "");
  EXPECT_EQ(to_, from_);
  const Result<Request*> none = hosts_->receiver->flush({buffers, 1});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none.value(), nullptr);
}

TEST_F(FlushTest, RefusesWhatIsNotRegistered) {
  deliver();
  EXPECT_FALSE(flush(kFlushedBytes + 1).ok());
  token_ = nullptr;
  const Result<Request*> request = flush();
  ASSERT_FALSE(request.ok());
  EXPECT_NE(request.error().message.find("not within the registered memory"), std::string::npos);
}

TEST_F(FlushTest, IsNothingWhereThereIsNoGpuOrItIsLeftOut) {
  HostOptions leavesOut{.memory = FakeMemory::byDmabuf};
  leavesOut.change = [](Settings& settings) { settings.flushes = false; };
  for (const HostOptions& options : {HostOptions(), leavesOut}) {
    VerbsHosts hosts(options);
    ASSERT_TRUE(hosts.connect());
    void* token =
        hosts.receiver->registerMemory(to_.data(), kFlushedBytes, MemoryKind::host).value();
    const Buffer buffer = {to_.data(), kFlushedBytes, 0, token};
    const Result<Request*> request = hosts.receiver->flush({&buffer, 1});
    ASSERT_TRUE(request.ok());
    EXPECT_EQ(request.value(), nullptr);
    EXPECT_EQ(hosts.provider.nReads(2), 0u);
  }
}

// A flush cannot be put off: a queue that is full is waited for.
TEST_F(FlushTest, TakesAsManyAsBuffersCanWait) {
  HostOptions options;
  options.provider.maxQueueEntries = 8;
  options.provider.postFailure = .3;
  deliver(options);
  std::vector<Request*> requests;
  for (size_t i = 0; i < kPlaces; ++i) {
    const Result<Request*> request = flush();
    ASSERT_TRUE(request.ok() && request.value() != nullptr) << i;
    requests.push_back(request.value());
  }
  const Result<Request*> tooMany = flush();
  ASSERT_FALSE(tooMany.ok());
  EXPECT_NE(tooMany.error().message.find("more than 256 flushes"), std::string::npos);
  for (Request* request : requests) EXPECT_EQ(wait(*request), "");
  EXPECT_TRUE(flush().ok());
}

// The sending side has all its messages through, so that NCCL does not visit it any more.
TEST_F(FlushTest, GoesOnOverAnotherDeviceWithoutThePeer) {
  const std::function<void(FakeProvider&)> faults[] = {
      [](FakeProvider& it) { it.failReads(2, IBV_WC_REM_ACCESS_ERR); },
      [](FakeProvider& it) { it.takeDown(2); },
      [](FakeProvider& it) { it.killDevice(2); },
      [](FakeProvider& it) { it.overrun(2); },
  };
  for (const auto& fault : faults) {
    for (const bool isBefore : {false, true}) {
      to_.assign(kFlushedBytes, 1);
      deliver({.provider = {.nDevices = 4, .maxDelay = 20}});
      if (isBefore) fault(provider());
      const Result<Request*> request = flush();
      ASSERT_TRUE(request.ok() && request.value() != nullptr);
      if (!isBefore) fault(provider());
      EXPECT_EQ(wait(*request.value()), "");
      EXPECT_EQ(to_, from_);
      EXPECT_EQ(provider().nReads(3), 1u);
      // The next one does not wait for the peer either.
      EXPECT_EQ(wait(*flush().value()), "");
      EXPECT_EQ(provider().nReads(3), 2u);
      TearDown();
    }
  }
}

TEST_F(FlushTest, NamesWhatFailedWhereNoDeviceIsLeft) {
  deliver({.devicesPerHost = 1});
  provider().failReads(2, IBV_WC_REM_ACCESS_ERR);
  Request* request = flush().value();
  const std::string why = wait(*request);
  EXPECT_NE(
      why.find("fake2:1: the flush of what it wrote into a GPU's memory: remote access error"),
      std::string::npos)
      << why;
  EXPECT_NE(why.find("NCCL_NET_GDR_LEVEL=LOC"), std::string::npos) << why;
  EXPECT_FALSE(flush().ok());
}

TEST_F(FlushTest, NamesTheLastDeviceWhereBothFail) {
  deliver();
  provider().killDevice(2);
  provider().failReads(3, IBV_WC_LOC_PROT_ERR);
  Request* request = flush().value();
  const std::string why = wait(*request);
  EXPECT_NE(why.find("fake3:1: the flush of"), std::string::npos) << why;
  EXPECT_NE(why.find("there is no other device"), std::string::npos) << why;
}

TEST_F(FlushTest, NeedsNoPeer) {
  for (const bool isBefore : {false, true}) {
    to_.assign(kFlushedBytes, 1);
    deliver({.provider = {.nDevices = 4, .maxDelay = 20}});
    if (isBefore) hosts_->sender.reset();
    Request* request = flush().value();
    hosts_->sender.reset();
    EXPECT_EQ(wait(*request), "");
    EXPECT_EQ(to_, from_);
    EXPECT_EQ(wait(*flush().value()), "");
    TearDown();
  }
}

TEST_F(FlushTest, EndsTheConnectionWhereItsMemoryIsTakenBack) {
  deliver();
  Request* request = flush().value();
  EXPECT_TRUE(hosts_->receiver->deregisterMemory(token_).ok());
  provider().forgetGpus();
  const size_t nReads = provider().nReads(2);
  for (int i = 0; i < 1000; ++i) provider().step();
  EXPECT_EQ(provider().nReads(2), nReads);
  const std::string why = wait(*request);
  EXPECT_NE(why.find("taken back during a transfer"), std::string::npos) << why;
}

TEST(VerbsFlush, FollowsGroupsOfAllSizes) {
  for (const FakeMemory memory : {FakeMemory::byAddress, FakeMemory::byDmabuf}) {
    for (const size_t nQueues : {1, 4}) {
      VerbsHosts hosts({.nQueues = nQueues, .splits = true, .memory = memory});
      ASSERT_TRUE(hosts.connect());
      Traffic traffic(hosts, {.seed = nQueues});
      traffic.run();
      EXPECT_TRUE(traffic.isComplete()) << traffic.sendError() << traffic.receiveError();
      EXPECT_GT(traffic.nFlushed(), 20u);
    }
  }
}

}  // namespace
}  // namespace cinch::net::ib
