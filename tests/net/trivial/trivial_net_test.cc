// The trivial plugin notices callers that break NCCL's protocol: otherwise it could prove nothing
// of them. Driven through the table of version 12, both ends in one process.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdarg>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "net_plugin/abi/net_v12.h"

namespace cinch::trivial {
namespace {

std::string lastWarning;

void remember(ncclDebugLogLevel level, unsigned long, const char*, int, const char* format, ...) {
  if (level != NCCL_LOG_WARN) return;
  char text[600];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  lastWarning = text;
}

// Both ends of a connection, memory registered on each. Set up by this thread; transfers are to be
// made by another.
class TrivialNet : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen("libnccl-net-trivial_v12.so", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    net_ = static_cast<const ncclNet_v12_t*>(dlsym(library_, "ncclNetPlugin_v12"));
    ASSERT_NE(net_, nullptr);
    ncclNetCommConfig_t config{NCCL_NET_TRAFFIC_CLASS_UNDEF};
    ASSERT_EQ(net_->init(&context_, 1, &config, remember, nullptr), ncclSuccess);
    ASSERT_EQ(net_->listen(context_, 0, handle_, &listener_), ncclSuccess);
    while (sender_ == nullptr || receiver_ == nullptr) {
      if (sender_ == nullptr) {
        ASSERT_EQ(net_->connect(context_, 0, handle_, &sender_, nullptr), ncclSuccess);
      }
      if (receiver_ == nullptr) {
        ASSERT_EQ(net_->accept(listener_, &receiver_, nullptr), ncclSuccess);
      }
    }
    ASSERT_EQ(net_->regMr(sender_, memory_, sizeof memory_, NCCL_PTR_HOST, &sendMr_), ncclSuccess);
    ASSERT_EQ(net_->regMr(receiver_, memory_, sizeof memory_, NCCL_PTR_HOST, &receiveMr_),
              ncclSuccess);
    lastWarning.clear();
  }

  void TearDown() override {
    EXPECT_EQ(net_->deregMr(sender_, sendMr_), ncclSuccess);
    EXPECT_EQ(net_->deregMr(receiver_, receiveMr_), ncclSuccess);
    EXPECT_EQ(net_->closeSend(sender_), ncclSuccess);
    EXPECT_EQ(net_->closeRecv(receiver_), ncclSuccess);
    EXPECT_EQ(net_->closeListen(listener_), ncclSuccess);
    EXPECT_EQ(net_->finalize(context_), ncclSuccess);
    dlclose(library_);
  }

  static void onThread(const std::function<void()>& action) { std::thread(action).join(); }

  // Posts until the plugin has taken it; a send once a receive of its tag waits for it.
  ncclResult_t send(void** request, char* data, size_t size, int tag = 0) {
    ncclResult_t result = ncclSuccess;
    *request = nullptr;
    while (result == ncclSuccess && *request == nullptr) {
      result = net_->isend(sender_, data, size, tag, sendMr_, nullptr, request);
    }
    return result;
  }
  ncclResult_t receive(void** request, char* data, size_t size, int tag = 0) {
    void* buffer = data;
    ncclResult_t result = ncclSuccess;
    *request = nullptr;
    while (result == ncclSuccess && *request == nullptr) {
      result = net_->irecv(receiver_, 1, &buffer, &size, &tag, &receiveMr_, &sendMr_, request);
    }
    return result;
  }
  ncclResult_t finish(void* request, int* size) {
    int done = 0;
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess && done == 0) result = net_->test(request, &done, size);
    return result;
  }

  static void expectBreach(ncclResult_t result, const std::string& what) {
    EXPECT_EQ(result, ncclInternalError);
    EXPECT_NE(lastWarning.find("breach"), std::string::npos) << lastWarning;
    EXPECT_NE(lastWarning.find(what), std::string::npos) << lastWarning;
  }

  void* library_ = nullptr;
  const ncclNet_v12_t* net_ = nullptr;
  void* context_ = nullptr;
  void* listener_ = nullptr;
  void* sender_ = nullptr;
  void* receiver_ = nullptr;
  void* sendMr_ = nullptr;
  void* receiveMr_ = nullptr;
  char handle_[NCCL_NET_HANDLE_MAXSIZE] = {};
  char memory_[4096] = {};
};

TEST_F(TrivialNet, MovesBytesForCallersThatKeepTheRules) {
  onThread([&] {
    for (int i = 0; i < 100; ++i) {
      const size_t size = static_cast<size_t>(i * 13);
      std::fill_n(memory_, size, static_cast<char>(i));
      void *sending = nullptr, *receiving = nullptr;
      ASSERT_EQ(receive(&receiving, memory_ + 2048, 2048, i), ncclSuccess);
      ASSERT_EQ(send(&sending, memory_, size, i), ncclSuccess);
      int sent = -1, received = -1;
      ASSERT_EQ(finish(receiving, &received), ncclSuccess);
      ASSERT_EQ(finish(sending, &sent), ncclSuccess);
      EXPECT_EQ(static_cast<size_t>(received), size);
      EXPECT_TRUE(std::equal(memory_, memory_ + size, memory_ + 2048));
    }
  });
  EXPECT_EQ(lastWarning, "");
}

TEST_F(TrivialNet, SaysLaterNowAndThen) {
  onThread([&] {
    int nLater = 0;
    for (int i = 0; i < 20; ++i) {
      void* request = memory_;
      void* data = memory_;
      size_t size = 1;
      int tag = 0;
      ASSERT_EQ(net_->irecv(receiver_, 1, &data, &size, &tag, &receiveMr_, nullptr, &request),
                ncclSuccess);
      if (request == nullptr) ++nLater;
    }
    EXPECT_GT(nLater, 0);
    EXPECT_LT(nLater, 10);
  });
}

TEST_F(TrivialNet, NoticesASecondThread) {
  void* request = nullptr;
  onThread([&] { ASSERT_EQ(receive(&request, memory_, 1), ncclSuccess); });
  int done = 0;
  expectBreach(net_->test(request, &done, nullptr), "test by thread");
}

TEST_F(TrivialNet, NoticesServiceByTheTransferringThread) {
  onThread([&] {
    void *request = nullptr, *mr = nullptr;
    ASSERT_EQ(receive(&request, memory_, 1), ncclSuccess);
    ASSERT_EQ(send(&request, memory_, 1), ncclSuccess);
    expectBreach(net_->regMr(sender_, memory_, 1, NCCL_PTR_HOST, &mr), "regMr");
    expectBreach(net_->deregMr(sender_, sendMr_), "deregMr");
  });
}

TEST_F(TrivialNet, NoticesTooManyRequests) {
  onThread([&] {
    void* request = nullptr;
    for (int i = 0; i < NCCL_NET_MAX_REQUESTS; ++i) {
      ASSERT_EQ(receive(&request, memory_, 1), ncclSuccess);
    }
    expectBreach(receive(&request, memory_, 1), "beyond 32");
  });
}

TEST_F(TrivialNet, NoticesATestOfAnotherThanTheOldest) {
  onThread([&] {
    void *first = nullptr, *second = nullptr;
    ASSERT_EQ(receive(&first, memory_, 1), ncclSuccess);
    ASSERT_EQ(receive(&second, memory_, 1), ncclSuccess);
    int done = 0;
    expectBreach(net_->test(second, &done, nullptr), "not the oldest");
  });
}

TEST_F(TrivialNet, NoticesATestOfARequestThatIsDone) {
  onThread([&] {
    void* request = nullptr;
    int size = 0, done = 0;
    ASSERT_EQ(receive(&request, memory_, 1), ncclSuccess);
    ASSERT_EQ(send(&request, memory_, 1), ncclSuccess);
    ASSERT_EQ(finish(request, &size), ncclSuccess);
    expectBreach(net_->test(request, &done, nullptr), "not outstanding");
  });
}

TEST_F(TrivialNet, NoticesMemoryThatIsNotRegistered) {
  onThread([&] {
    void* request = nullptr;
    expectBreach(send(&request, memory_ + 4000, 97), "outside");
  });
}

TEST_F(TrivialNet, PutsOffASendUntilItsTagHasItsTurn) {
  onThread([&] {
    void *request = nullptr, *five = nullptr, *four = nullptr;
    ASSERT_EQ(receive(&five, memory_, 1, 5), ncclSuccess);
    ASSERT_EQ(receive(&four, memory_, 1, 4), ncclSuccess);
    for (int i = 0; i < 50; ++i) {
      ASSERT_EQ(net_->isend(sender_, memory_, 1, 4, sendMr_, nullptr, &request), ncclSuccess);
      ASSERT_EQ(request, nullptr);
    }
    ASSERT_EQ(send(&request, memory_, 1, 5), ncclSuccess);
    ASSERT_EQ(send(&request, memory_, 1, 4), ncclSuccess);
  });
}

TEST_F(TrivialNet, SortsTheMessagesOfAGroupByTheirTags) {
  onThread([&] {
    void* data[3] = {memory_, memory_ + 100, memory_ + 200};
    size_t sizes[3] = {9, 8, 7};
    int tags[3] = {4, 5, 4};
    void* memories[3] = {receiveMr_, receiveMr_, receiveMr_};
    char* from = memory_ + 1000;
    std::fill_n(from, 100, 'x');
    void *group = nullptr, *sending[3] = {};
    ASSERT_EQ(net_->irecv(receiver_, 3, data, sizes, tags, memories, nullptr, &group), ncclSuccess);
    ASSERT_NE(group, nullptr);
    ASSERT_EQ(send(&sending[0], from, 3, 5), ncclSuccess);
    ASSERT_EQ(send(&sending[1], from, 1, 4), ncclSuccess);
    ASSERT_EQ(send(&sending[2], from, 0, 4), ncclSuccess);
    int received[4] = {-1, -1, -1, -1}, sent = -1;
    ASSERT_EQ(finish(group, received), ncclSuccess);
    EXPECT_EQ(std::vector<int>(received, received + 4), (std::vector<int>{1, 3, 0, -1}));
    EXPECT_STREQ(memory_, "x");
    EXPECT_STREQ(memory_ + 100, "xxx");
    EXPECT_STREQ(memory_ + 200, "");
    ASSERT_EQ(finish(sending[1], &sent), ncclSuccess) << "each tag has its own oldest";
    ASSERT_EQ(finish(sending[0], &sent), ncclSuccess);
    EXPECT_EQ(sent, 3);
  });
  EXPECT_EQ(lastWarning, "");
}

TEST_F(TrivialNet, RefusesAMessageThatIsTooLong) {
  onThread([&] {
    void *sending = nullptr, *receiving = nullptr;
    ASSERT_EQ(receive(&receiving, memory_, 8), ncclSuccess);
    ASSERT_EQ(send(&sending, memory_, 9), ncclSuccess);
    int size = 0;
    EXPECT_EQ(finish(receiving, &size), ncclInvalidUsage);
    EXPECT_NE(lastWarning.find("truncated"), std::string::npos) << lastWarning;
  });
}

TEST_F(TrivialNet, NoticesAHandleThatLosesItsState) {
  char handle[NCCL_NET_HANDLE_MAXSIZE], copy[NCCL_NET_HANDLE_MAXSIZE];
  void *listener = nullptr, *comm = nullptr;
  ASSERT_EQ(net_->listen(context_, 0, handle, &listener), ncclSuccess);
  std::copy(std::begin(handle), std::end(handle), copy);
  ASSERT_EQ(net_->connect(context_, 0, handle, &comm, nullptr), ncclSuccess);
  ASSERT_EQ(comm, nullptr);
  expectBreach(net_->connect(context_, 0, copy, &comm, nullptr), "handle");
  EXPECT_EQ(net_->closeListen(listener), ncclSuccess);
}

TEST_F(TrivialNet, NoticesACloseWithMemoryRegistered) {
  char handle[NCCL_NET_HANDLE_MAXSIZE];
  void *listener = nullptr, *out = nullptr, *in = nullptr, *mr = nullptr;
  ASSERT_EQ(net_->listen(context_, 0, handle, &listener), ncclSuccess);
  while (out == nullptr || in == nullptr) {
    if (out == nullptr) net_->connect(context_, 0, handle, &out, nullptr);
    if (in == nullptr) net_->accept(listener, &in, nullptr);
  }
  ASSERT_EQ(net_->regMr(out, memory_, 1, NCCL_PTR_HOST, &mr), ncclSuccess);
  expectBreach(net_->closeSend(out), "registered");
  EXPECT_EQ(net_->closeRecv(in), ncclSuccess);
  EXPECT_EQ(net_->closeListen(listener), ncclSuccess);
}

TEST_F(TrivialNet, NoticesWhatWasNotOffered) {
  int done = 0;
  void* mr = nullptr;
  expectBreach(net_->test(nullptr, &done, nullptr), "no request");
  expectBreach(net_->regMr(sender_, memory_, 1, NCCL_PTR_CUDA, &mr), "type 2");
  expectBreach(net_->listen(context_, 1, handle_, &mr), "device 1");
  expectBreach(net_->iflush(receiver_, 0, nullptr, nullptr, nullptr, nullptr), "iflush");
}

}  // namespace
}  // namespace cinch::trivial
