#include "net_plugin/ib/sender.h"

#include "verbs_hosts.h"

namespace cinch::net::ib {
namespace {

// One group of buffers that all have the same tag, and a message for each.
struct SameTag {
  static constexpr size_t kRoom = 64;

  explicit SameTag(uint64_t seed) : hosts({.provider = {.seed = seed, .nDevices = 4}}) {
    EXPECT_TRUE(hosts.connect());
    source = hosts.sender->registerMemory(from.data(), from.size(), MemoryKind::host).value();
    sink = hosts.receiver->registerMemory(to.data(), to.size(), MemoryKind::host).value();
    for (size_t i = 0; i < kMaxGroup; ++i) {
      std::fill_n(&from[i * kRoom], kRoom, static_cast<uint8_t>(i + 1));
      buffers.push_back({&to[i * kRoom], kRoom, 7, sink});
    }
  }
  ~SameTag() {
    EXPECT_TRUE(hosts.sender->deregisterMemory(source).ok());
    EXPECT_TRUE(hosts.receiver->deregisterMemory(sink).ok());
  }

  void transfer() {
    Request* receiving = hosts.receiver->receive(buffers).value();
    ASSERT_NE(receiving, nullptr);
    std::vector<Request*> sending;
    std::array<size_t, kMaxGroup> sizes{};
    for (bool isDone = false; !isDone;) {
      Request* next = nullptr;
      if (sending.size() < kMaxGroup) next = send(sending.size());
      if (next != nullptr) sending.push_back(next);
      const Result<bool> tested = receiving->test(sizes.data());
      ASSERT_TRUE(tested.ok()) << tested.error().message;
      isDone = tested.value();
    }
    for (Request* request : sending) {
      size_t nBytes = 0;
      while (!request->test(&nBytes).value()) {
      }
    }
  }
  Request* send(size_t message) {
    return hosts.sender->send(&from[message * kRoom], kRoom, 7, source).value();
  }

  VerbsHosts hosts;
  std::vector<uint8_t> from = std::vector<uint8_t>(kMaxGroup * kRoom);
  std::vector<uint8_t> to = std::vector<uint8_t>(kMaxGroup * kRoom);
  std::vector<Buffer> buffers;
  void* source = nullptr;
  void* sink = nullptr;
};

// Their grants land in any order, and the first message still goes to the first buffer.
TEST(Sender, FillsBuffersOfOneTagInTheirOrder) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SameTag run(seed);
    ASSERT_NO_FATAL_FAILURE(run.transfer());
    for (size_t i = 0; i < run.to.size(); ++i) {
      ASSERT_EQ(run.to[i], i / SameTag::kRoom + 1) << "seed " << seed << ", byte " << i;
    }
  }
}

TEST(Sender, NamesBothSizesWhereAMessageIsTooLarge) {
  SameTag run(1);
  Request* receiving = run.hosts.receiver->receive({run.buffers.data(), 1}).value();
  ASSERT_NE(receiving, nullptr);
  Result<Request*> sent(nullptr);
  for (int i = 0; i < 1000 && sent && sent.value() == nullptr; ++i) {
    sent = run.hosts.sender->send(run.from.data(), SameTag::kRoom + 1, 7, run.source);
  }
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().message.find("a message of 65 bytes is too large for the 64 that its "
                                      "receiver waits for"),
            0u)
      << sent.error().message;
  // For good.
  EXPECT_FALSE(run.hosts.sender->send(run.from.data(), 1, 7, run.source).ok());
}

// A message whose tag no buffer of the group has waits, and lets the others of the group pass.
TEST(Sender, PutsOffAMessageOfAnotherTag) {
  SameTag run(2);
  run.buffers.resize(2);
  run.buffers[1].tag = 8;
  ASSERT_NE(run.hosts.receiver->receive(run.buffers).value(), nullptr);
  Request* eight = nullptr;
  const auto sendOf = [&](int tag) {
    return run.hosts.sender->send(run.from.data(), 10, tag, run.source).value();
  };
  for (int i = 0; i < 1000 && eight == nullptr; ++i) eight = sendOf(8);
  ASSERT_NE(eight, nullptr);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(sendOf(9), nullptr);
    ASSERT_EQ(sendOf(8), nullptr) << "its buffer is taken";
  }
  EXPECT_NE(sendOf(7), nullptr);
}

}  // namespace
}  // namespace cinch::net::ib
