#include "verbs_hosts.h"

#include <algorithm>
#include <numeric>

namespace cinch::net::ib {
namespace {

Settings settingsOf(const HostOptions& options, FakeSysfs& sysfs, int firstDevice) {
  Settings settings;
  settings.nQueues = options.nQueues;
  settings.splits = options.splits;
  settings.portPatience = settings.lastPortPatience = options.portPatience;
  for (int i = 0; i < options.devicesPerHost; ++i) {
    settings.devices += "fake" + std::to_string(firstDevice + i) + ",";
  }
  if (options.memory == FakeMemory::byAddress) sysfs.add("/module/nvidia_peermem/version");
  settings.sysfs = sysfs.path();
  options.change(settings);
  return settings;
}

FakeOptions providerOf(const HostOptions& options) {
  FakeOptions provider = options.provider;
  if (options.memory == FakeMemory::byAddress) provider.resolvesGpus = true;
  if (options.memory == FakeMemory::byDmabuf) provider.dmabufError = 0;
  return provider;
}

uint8_t patternAt(size_t message, size_t byte) {
  return static_cast<uint8_t>((message * 2654435761u + byte * 40503u) >> 7);
}

}  // namespace

VerbsHosts::VerbsHosts(const HostOptions& options)
    : memory(options.memory),
      provider(providerOf(options)),
      sending(openDevices(provider.api(), settingsOf(options, sysfs, 0), sockets, caretaker)),
      receiving(openDevices(provider.api(), settingsOf(options, sysfs, 2), sockets, caretaker)) {}

VerbsHosts::~VerbsHosts() {
  sender.reset();
  receiver.reset();
  for (Devices* host : {&sending, &receiving}) {
    host->devices.clear();  // before their ports: connections that never came to be are there
    host->ports.clear();
  }
  EXPECT_EQ(provider.leftovers(), "");
}

bool VerbsHosts::connect() {
  Handle handle{};
  auto listener = receiving.devices.front()->listen(handle);
  if (!listener) return false;
  for (int i = 0; i < 100; ++i) {
    if (sender == nullptr) {
      auto connected = sending.devices.front()->connect(handle, -1);
      EXPECT_TRUE(connected.ok()) << connected.error().message;
      if (!connected) return false;
      sender = std::move(connected.value());
    }
    if (receiver == nullptr) {
      auto accepted = listener.value()->accept();
      EXPECT_TRUE(accepted.ok()) << accepted.error().message;
      if (!accepted) return false;
      receiver = std::move(accepted.value());
    }
    if (sender != nullptr && receiver != nullptr) return true;
  }
  return false;
}

Traffic::Traffic(VerbsHosts& hosts, const Options& options)
    : hosts_(hosts),
      flushes_(options.flushes && hosts.memory != FakeMemory::host),
      random_(options.seed) {
  for (size_t i = 0; i < options.nGroups; ++i) addGroup(options);
  fill();
  sendToken_ = known(*hosts.sender, sendMemory_);
  receiveToken_ = known(*hosts.receiver, receiveMemory_);
}

Traffic::~Traffic() {
  if (hosts_.sender) hosts_.sender->deregisterMemory(sendToken_).ok();
  if (hosts_.receiver) hosts_.receiver->deregisterMemory(receiveToken_).ok();
  hosts_.provider.forgetGpus();
}

void* Traffic::known(Connection& connection, Pages& memory) {
  Result<void*> token(nullptr);
  if (hosts_.memory == FakeMemory::byDmabuf) {
    const int descriptor = hosts_.provider.exportDmabuf(memory.data(), memory.size());
    token = connection.registerDmabuf(memory.data(), memory.size(), {descriptor, 0});
  } else {
    const bool isHost = hosts_.memory == FakeMemory::host;
    if (!isHost) hosts_.provider.addGpu(memory.data(), memory.size());
    token = connection.registerMemory(memory.data(), memory.size(),
                                      isHost ? MemoryKind::host : MemoryKind::device);
  }
  EXPECT_TRUE(token.ok()) << token.error().message;
  return token ? token.value() : nullptr;
}

void Traffic::addGroup(const Options& options) {
  Group group;
  group.first = messages_.size();
  group.size = 1 + below(options.maxGroup);
  for (size_t i = 0; i < group.size; ++i) {
    Message message;
    message.group = groups_.size();
    message.tag = static_cast<int>(100 + i);
    message.nBytes = below(4) == 0 ? below(3) : below(options.maxBytes);
    message.capacity = message.nBytes + below(2) * below(100);
    message.from = sendBytes_ + below(9);
    message.to = receiveBytes_ + below(9);
    sendBytes_ = message.from + message.nBytes;
    receiveBytes_ = message.to + message.capacity + kGuard;
    group.order.push_back(messages_.size());
    messages_.push_back(message);
  }
  std::shuffle(group.order.begin(), group.order.end(), random_);
  sendOrder_.insert(sendOrder_.end(), group.order.begin(), group.order.end());
  groups_.push_back(group);
}

void Traffic::fill() {
  sendMemory_.resize(sendBytes_ + 1);
  receiveMemory_.assign(receiveBytes_, kUntouched);
  for (size_t i = 0; i < messages_.size(); ++i) {
    for (size_t byte = 0; byte < messages_[i].nBytes; ++byte) {
      sendMemory_[messages_[i].from + byte] = patternAt(i, byte);
    }
  }
}

void Traffic::postSends() {
  if (!sendError_.empty() || nextSend_ == sendOrder_.size() || below(3) == 0) return;
  Message& message = messages_[sendOrder_[nextSend_]];
  const auto sent =
      hosts_.sender->send(&sendMemory_[message.from], message.nBytes, message.tag, sendToken_);
  if (!sent) {
    sendError_ = sent.error().message;
    return;
  }
  message.sending = sent.value();
  if (message.sending != nullptr) ++nextSend_;
}

void Traffic::testSends() {
  for (size_t i = 0; i < nextSend_; ++i) {
    Message& message = messages_[sendOrder_[i]];
    if (message.sending == nullptr) continue;
    size_t nBytes = 0;
    const auto isDone = message.sending->test(&nBytes);
    if (isDone && !isDone.value()) continue;
    message.sending = nullptr;
    if (!isDone) {
      sendError_ = isDone.error().message;
      continue;
    }
    ++nSent_;
    EXPECT_EQ(nBytes, message.nBytes);
    // The bytes are the caller's again.
    std::fill_n(&sendMemory_[message.from], message.nBytes, uint8_t{0});
  }
}

void Traffic::postReceives() {
  if (!receiveError_.empty() || nextReceive_ == groups_.size() || below(3) == 0) return;
  Group& group = groups_[nextReceive_];
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < group.size; ++i) {
    const Message& message = messages_[group.first + i];
    buffers.push_back({&receiveMemory_[message.to], message.capacity, message.tag, receiveToken_});
  }
  const auto posted = hosts_.receiver->receive(buffers);
  if (!posted) {
    receiveError_ = posted.error().message;
    return;
  }
  group.receiving = posted.value();
  if (group.receiving != nullptr) ++nextReceive_;
}

void Traffic::testReceives() {
  for (size_t i = 0; i < nextReceive_; ++i) {
    Group& group = groups_[i];
    if (group.receiving == nullptr) continue;
    const size_t nBuffers = group.receiving->nBuffers();
    const auto isDone = group.receiving->test(group.sizes.data());
    if (isDone && !isDone.value()) continue;
    group.receiving = nullptr;
    if (!isDone) {
      receiveError_ = isDone.error().message;
      continue;
    }
    EXPECT_EQ(nBuffers, group.size);
    flush(group);
  }
}

// As NCCL: once a receive is done.
void Traffic::flush(Group& group) {
  std::vector<Buffer> buffers;
  size_t nBytes = 0;
  for (size_t i = 0; i < group.size; ++i) {
    uint8_t* const to = &receiveMemory_[messages_[group.first + i].to];
    buffers.push_back({to, group.sizes[i], 0, receiveToken_});
    nBytes += group.sizes[i];
  }
  const auto flushing = hosts_.receiver->flush(buffers);
  if (!flushing) {
    receiveError_ = flushing.error().message;
    return;
  }
  EXPECT_EQ(flushing.value() != nullptr, flushes_ && nBytes > 0);
  group.flushing = flushing.value();
  if (group.flushing == nullptr) check(group);
}

void Traffic::testFlushes() {
  for (size_t i = 0; i < nextReceive_; ++i) {
    Group& group = groups_[i];
    if (group.flushing == nullptr) continue;
    EXPECT_EQ(group.flushing->nBuffers(), 0u);
    size_t untouched = 77;
    const auto isDone = group.flushing->test(&untouched);
    EXPECT_EQ(untouched, 77u);
    if (isDone && !isDone.value()) continue;
    group.flushing = nullptr;
    if (!isDone) {
      receiveError_ = isDone.error().message;
      continue;
    }
    ++nFlushed_;
    check(group);
  }
}

void Traffic::check(const Group& group) {
  ++nReceived_;
  for (size_t i = 0; i < group.size; ++i) {
    const size_t index = group.first + i;
    const Message& message = messages_[index];
    ASSERT_EQ(group.sizes[i], message.nBytes);
    for (size_t byte = 0; byte < message.nBytes; ++byte) {
      ASSERT_EQ(receiveMemory_[message.to + byte], patternAt(index, byte))
          << "message " << index << " byte " << byte << " of " << message.nBytes;
    }
    for (size_t byte = 0; byte < kGuard; ++byte) {
      ASSERT_EQ(receiveMemory_[message.to + message.capacity + byte], kUntouched);
    }
    // What comes later than this is wrong.
    std::fill_n(&receiveMemory_[message.to], message.capacity, kUntouched);
  }
}

void Traffic::visitSender() {
  postSends();
  testSends();
}

bool Traffic::visit() {
  visitSender();
  postReceives();
  testReceives();
  testFlushes();
  const bool isOver = !sendError_.empty() && !receiveError_.empty();
  return !isComplete() && !isOver && !testing::Test::HasFatalFailure();
}

void Traffic::run(size_t mostVisits) {
  while (visit()) {
    ASSERT_GT(mostVisits--, 0u) << "it hangs: " << nSent_ << " sent, " << nReceived_ << " received"
                                << "; " << sendError_ << "; " << receiveError_;
  }
  // Nothing was written after its message was done.
  for (size_t i = 0; isComplete() && i < receiveMemory_.size(); ++i) {
    ASSERT_EQ(receiveMemory_[i], kUntouched) << "at " << i;
  }
}

}  // namespace cinch::net::ib
