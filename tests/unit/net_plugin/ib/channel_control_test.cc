#include "net_plugin/ib/channel_control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "memory_network.h"

namespace cinch::net::ib {
namespace {

using Bytes = std::vector<uint8_t>;

// What the stubs below do, and what was done with them.
struct Script {
  int refusals = 0;  // of send() or receive(), that it takes nothing now
  int delays = 0;    // of test(), that it is not done
  bool fails = false;
  std::vector<Bytes> sent{};
  std::deque<Bytes> toHear{};
  size_t nPosted = 0;
  size_t nTestsOfEnded = 0;
  Bytes atTheEnd{};  // what the last message was when the connection was destroyed
};

// A request of a stub: to be tested as often as its contract allows, and no more.
class Scripted final : public Request {
 public:
  explicit Scripted(Script& script) : script_(script) {}
  void begin(std::function<Result<bool>(size_t*)> finish) {
    isUnderWay_ = true;
    ++script_.nPosted;
    finish_ = std::move(finish);
  }
  bool isUnderWay() const { return isUnderWay_; }

  Result<bool> test(size_t* sizes) override {
    script_.nTestsOfEnded += !isUnderWay_;
    if (!script_.fails && script_.delays-- > 0) return false;
    if (!script_.fails) {
      const Result<bool> isDone = finish_(sizes);
      isUnderWay_ = isDone && !isDone.value();
      return isDone;
    }
    isUnderWay_ = false;
    return errorf(Status::remoteError, "the way is lost");
  }

 private:
  Script& script_;
  bool isUnderWay_ = false;
  std::function<Result<bool>(size_t*)> finish_;
};

template <class Base>
class Stub : public Base {
 public:
  explicit Stub(Script& script) : script_(script), request_(script) {}
  Result<void*> registerMemory(void*, size_t, MemoryKind) override { return nullptr; }
  Result<void> deregisterMemory(void*) override { return {}; }

 protected:
  Script& script_;
  Scripted request_;
};

class StubSend final : public Stub<SendConnection> {
 public:
  using Stub::Stub;
  // The device may read what is under way until here.
  ~StubSend() override {
    if (request_.isUnderWay()) script_.atTheEnd.assign(data_, data_ + nBytes_);
  }

  Result<Request*> send(const void* data, size_t nBytes, int, void*) override {
    if (script_.refusals-- > 0) return nullptr;
    data_ = static_cast<const uint8_t*>(data);
    nBytes_ = nBytes;
    request_.begin([this](size_t*) -> Result<bool> {
      script_.sent.emplace_back(data_, data_ + nBytes_);
      return true;
    });
    return &request_;
  }

 private:
  const uint8_t* data_ = nullptr;
  size_t nBytes_ = 0;
};

class StubReceive final : public Stub<ReceiveConnection> {
 public:
  using Stub::Stub;

  Result<Request*> receive(std::span<const Buffer> buffers) override {
    EXPECT_EQ(buffers.size(), 1u);
    EXPECT_GE(buffers[0].capacity, kMaxControlBytes);
    if (script_.refusals-- > 0) return nullptr;
    request_.begin([this, data = buffers[0].data](size_t* sizes) -> Result<bool> {
      if (script_.toHear.empty()) return false;
      const Bytes message = std::move(script_.toHear.front());
      script_.toHear.pop_front();
      *sizes = message.size();
      std::copy(message.begin(), message.end(), static_cast<uint8_t*>(data));
      return true;
    });
    return &request_;
  }
};

// What was heard, "nothing" or the error.
std::string heardBy(ChannelControl& control) {
  const auto heard = control.hear();
  if (!heard) return "error: " + heard.error().message;
  if (!heard.value()) return "nothing";
  return std::string(heard.value()->begin(), heard.value()->end());
}

Bytes bytesOf(const char* text) {
  return Bytes(text, text + strlen(text));
}

// Two controls over the network of the other tests.
class ChannelControlTest : public testing::Test {
 protected:
  void SetUp() override {
    join(one_, other_);
    join(other_, one_);
  }
  void join(std::unique_ptr<ChannelControl>& from, std::unique_ptr<ChannelControl>& to) {
    Handle handle{};
    const auto listener = std::move(network_.listen(handle).value());
    from->setOut(std::move(network_.connect(handle, -1).value()));
    to->setIn(std::move(listener->accept().value()));
  }

  MemoryDevice network_;
  std::unique_ptr<ChannelControl> one_ = std::make_unique<ChannelControl>();
  std::unique_ptr<ChannelControl> other_ = std::make_unique<ChannelControl>();
};

TEST_F(ChannelControlTest, IsHeardInOrderBothWays) {
  EXPECT_EQ(heardBy(*one_), "nothing");
  EXPECT_TRUE(one_->say(bytesOf("a")).ok());
  EXPECT_TRUE(one_->say({}).ok());
  EXPECT_TRUE(other_->say(bytesOf("z")).ok());
  EXPECT_TRUE(one_->say(Bytes(kMaxControlBytes, 'b')).ok());
  EXPECT_EQ(heardBy(*other_), "a");
  EXPECT_EQ(heardBy(*one_), "z");
  EXPECT_EQ(heardBy(*other_), "");
  EXPECT_EQ(heardBy(*other_), std::string(kMaxControlBytes, 'b'));
  EXPECT_EQ(heardBy(*other_), "nothing");
}

TEST_F(ChannelControlTest, SaysNothingThatThePeerHasNoRoomFor) {
  const Result<void> said = one_->say(Bytes(kMaxControlBytes + 1));
  ASSERT_FALSE(said.ok());
  EXPECT_EQ(said.error().message,
            "1025 bytes are too many for a control message, the most is 1024");
  EXPECT_TRUE(one_->say(bytesOf("next")).ok());
  EXPECT_EQ(heardBy(*other_), "next");
}

TEST_F(ChannelControlTest, GivesWhatAPeerSaidBeforeItWentAndThenTheError) {
  EXPECT_TRUE(one_->say(bytesOf("last words")).ok());
  one_.reset();
  EXPECT_EQ(heardBy(*other_), "last words");
  EXPECT_EQ(heardBy(*other_), "error: the sender is gone");
  EXPECT_EQ(heardBy(*other_), "error: the sender is gone");
}

// The peer's last word may be that all has arrived: not being able to answer it is no news.
TEST_F(ChannelControlTest, GivesThemWhereItCouldNotSayItsOwn) {
  EXPECT_TRUE(one_->say(bytesOf("last words")).ok());
  one_.reset();
  EXPECT_TRUE(other_->say(bytesOf("are you there?")).ok());
  EXPECT_EQ(heardBy(*other_), "last words");
  EXPECT_EQ(heardBy(*other_), "error: the sender is gone");
  EXPECT_TRUE(other_->say(bytesOf("hello?")).ok());
  EXPECT_EQ(heardBy(*other_), "error: the sender is gone");
}

TEST_F(ChannelControlTest, TakesNothingThatIsLongerThanItsBuffer) {
  ChannelControl control;
  Handle handle{};
  const auto listener = std::move(network_.listen(handle).value());
  const auto out = std::move(network_.connect(handle, -1).value());
  control.setIn(std::move(listener->accept().value()));
  const Bytes large(kMaxControlBytes + 1);
  ASSERT_TRUE(out->send(large.data(), large.size(), 0, nullptr).ok());
  EXPECT_EQ(heardBy(control).substr(0, 6), "error:");
}

TEST(ChannelControl, KeepsWhatIsSaidUntilThereIsAWay) {
  Script script;
  ChannelControl control;
  EXPECT_FALSE(control.hasOut());
  EXPECT_TRUE(control.say(bytesOf("one")).ok());
  EXPECT_TRUE(control.say(bytesOf("two")).ok());
  EXPECT_EQ(heardBy(control), "nothing");
  control.setOut(std::make_unique<StubSend>(script));
  EXPECT_TRUE(control.hasOut());
  EXPECT_FALSE(control.hasIn());
  EXPECT_EQ(heardBy(control), "nothing");
  EXPECT_EQ(script.sent, (std::vector<Bytes>{bytesOf("one"), bytesOf("two")}));
}

TEST(ChannelControl, GoesOnWhenTheWayTakesMore) {
  Script out{.refusals = 2, .delays = 3};
  Script in{.refusals = 1, .delays = 2};
  in.toHear = {bytesOf("a"), bytesOf("b")};
  ChannelControl control;
  control.setOut(std::make_unique<StubSend>(out));
  control.setIn(std::make_unique<StubReceive>(in));
  EXPECT_TRUE(control.say(bytesOf("one")).ok());
  EXPECT_TRUE(control.say(bytesOf("two")).ok());
  EXPECT_TRUE(out.sent.empty());
  std::string heard;
  for (int i = 0; i < 10; ++i) heard += heardBy(control) + " ";
  EXPECT_EQ(heard, "nothing nothing nothing a b nothing nothing nothing nothing nothing ");
  EXPECT_EQ(out.sent, (std::vector<Bytes>{bytesOf("one"), bytesOf("two")}));
  EXPECT_EQ(out.nTestsOfEnded + in.nTestsOfEnded, 0u);
}

// A request that has ended is not one any more.
TEST(ChannelControl, TestsNoRequestAgainThatHasFailed) {
  Script out{.delays = 1};
  Script in{.delays = 1};
  {
    ChannelControl control;
    control.setOut(std::make_unique<StubSend>(out));
    control.setIn(std::make_unique<StubReceive>(in));
    EXPECT_TRUE(control.say(bytesOf("one")).ok());
    EXPECT_EQ(heardBy(control), "nothing");
    EXPECT_TRUE(control.say(bytesOf("two")).ok());
    out.fails = in.fails = true;
    out.delays = 1;
    EXPECT_TRUE(control.say(bytesOf("three")).ok());
    EXPECT_EQ(heardBy(control), "error: the way is lost");
    EXPECT_EQ(heardBy(control), "error: the way is lost");
  }
  EXPECT_EQ(out.nTestsOfEnded, 0u);
  EXPECT_EQ(in.nTestsOfEnded, 0u);
  // Nor is anything more asked of a way that is lost.
  EXPECT_EQ(out.nPosted, 3u);
  EXPECT_EQ(in.nPosted, 1u);
}

TEST(ChannelControl, IsAtItsEndWhereItCanOnlyHear) {
  Script out{.fails = true};
  Script in;
  in.toHear = {bytesOf("a")};
  ChannelControl control;
  control.setOut(std::make_unique<StubSend>(out));
  control.setIn(std::make_unique<StubReceive>(in));
  EXPECT_TRUE(control.say(bytesOf("one")).ok());
  EXPECT_EQ(heardBy(control), "a");
  EXPECT_EQ(heardBy(control), "error: the way is lost");
}

// The connection goes before what it may still read.
TEST(ChannelControl, KeepsWhatIsUnderWayAsLongAsTheWay) {
  Script script{.delays = 1 << 30};
  {
    ChannelControl control;
    control.setOut(std::make_unique<StubSend>(script));
    EXPECT_TRUE(control.say(Bytes(1000, 'k')).ok());
  }
  EXPECT_EQ(script.atTheEnd, Bytes(1000, 'k'));
}

TEST(ChannelControl, SaysAllBeforeItCloses) {
  Script script{.delays = 3};
  {
    ChannelControl control;
    control.setOut(std::make_unique<StubSend>(script));
    EXPECT_TRUE(control.say(bytesOf("one")).ok());
    EXPECT_TRUE(control.say(bytesOf("two")).ok());
    EXPECT_TRUE(script.sent.empty());
  }
  EXPECT_EQ(script.sent, (std::vector<Bytes>{bytesOf("one"), bytesOf("two")}));
}

}  // namespace
}  // namespace cinch::net::ib
