// The tables of all versions over the fake network: a typed suite has one instance of each test for
// every version.
#pragma once

#include <gtest/gtest.h>

#include "tests/unit/net_plugin/abi/fake_network.h"
#include "tests/unit/net_plugin/abi/table_calls.h"

namespace cinch::net {

// A value that no call gives: what was in an output before.
inline void* stale() {
  static int somewhere;
  return &somewhere;
}

template <class Version>
class AdapterTest : public testing::Test {
 protected:
  using Net = Calls<Version::value>;

  void SetUp() override {
    fake::reset();
    ASSERT_EQ(Net::init(fake::logger, NCCL_NET_TRAFFIC_CLASS_UNDEF, &context_), ncclSuccess);
    fake::logged.clear();
  }
  void TearDown() override {
    fake::network.onCall = [] { return Result<void>(); };
    if (sender_ != nullptr) Net::table().closeSend(sender_);
    if (receiver_ != nullptr) Net::table().closeRecv(receiver_);
    Net::finalize(context_);
    EXPECT_EQ(fake::network.nAlive, 0);
  }

  void* sender() {
    if (sender_ == nullptr) {
      EXPECT_EQ(Net::connect(context_, 0, -1, handle_.data(), &sender_), ncclSuccess);
    }
    return sender_;
  }
  void* receiver() {
    void* listener = nullptr;
    if (receiver_ == nullptr) {
      EXPECT_EQ(Net::listen(context_, 0, handle_.data(), &listener), ncclSuccess);
      EXPECT_EQ(Net::table().accept(listener, &receiver_, nullptr), ncclSuccess);
      EXPECT_EQ(Net::table().closeListen(listener), ncclSuccess);
    }
    return receiver_;
  }
  void* request() {
    void* posted = nullptr;
    EXPECT_EQ(Net::isend(sender(), data_, 4, nullptr, &posted), ncclSuccess);
    return posted;
  }

  // The last call wrote exactly one line for the user: a warning that has this in it.
  void expectWarning(const char* part) {
    ASSERT_EQ(fake::logged.size(), 1u) << part;
    EXPECT_EQ(fake::logged[0].level, NCCL_LOG_WARN);
    EXPECT_NE(fake::logged[0].text.find(part), std::string::npos) << fake::logged[0].text;
    EXPECT_EQ(fake::logged[0].text.rfind("CINCH/NET ", 0), 0u) << fake::logged[0].text;
    fake::logged.clear();
  }

  void* context_ = nullptr;
  Handle handle_{};
  void* sender_ = nullptr;
  void* receiver_ = nullptr;
  char data_[16] = {};
};

template <int version>
using Number = std::integral_constant<int, version>;
using Versions = testing::Types<Number<8>, Number<9>, Number<10>, Number<11>, Number<12>>;

struct VersionName {
  template <class Version>
  static std::string GetName(int) {
    return "v" + std::to_string(Version::value);
  }
};

// using declarations of the fixture, which a template has to name.
#define CINCH_FIXTURE                    \
  using Net = typename TestFixture::Net; \
  [[maybe_unused]] auto& table = Net::table()

}  // namespace cinch::net
