// What v10 to v12 say about a communicator: its traffic class, at connect or at init.
#include <gtest/gtest.h>

#include "tests/unit/net_plugin/abi/fake_network.h"
#include "tests/unit/net_plugin/abi/table_calls.h"

namespace cinch::net {
namespace {

using fake::network;

class ContextTest : public testing::Test {
 protected:
  void SetUp() override { fake::reset(); }

  template <class Connect>
  int trafficClassOf(const Connect& connect) {
    void* comm = nullptr;
    network.trafficClass = -77;
    EXPECT_EQ(connect(handle_.data(), &comm), ncclSuccess);
    EXPECT_EQ(ncclNetPlugin_v12.closeSend(comm), ncclSuccess);
    return network.trafficClass;
  }

  Handle handle_{};
};

TEST_F(ContextTest, EarlyVersionsAskForNoTrafficClass) {
  EXPECT_EQ(trafficClassOf([](void* handle, void** comm) {
              return ncclNetPlugin_v8.connect(0, handle, comm, nullptr);
            }),
            NCCL_NET_TRAFFIC_CLASS_UNDEF);
  EXPECT_EQ(trafficClassOf([](void* handle, void** comm) {
              return ncclNetPlugin_v9.connect(0, handle, comm, nullptr);
            }),
            NCCL_NET_TRAFFIC_CLASS_UNDEF);
}

TEST_F(ContextTest, Version10SaysItAtConnect) {
  ncclNetCommConfig_t config = {42};
  ncclNetCommConfig_t* none = nullptr;
  for (ncclNetCommConfig_t* given : {&config, none}) {
    EXPECT_EQ(trafficClassOf([&](void* handle, void** comm) {
                return ncclNetPlugin_v10.connect(0, given, handle, comm, nullptr);
              }),
              given == nullptr ? NCCL_NET_TRAFFIC_CLASS_UNDEF : 42);
  }
}

template <int version>
class CommunicatorTest : public ContextTest {
 protected:
  void* init(int trafficClass) {
    void* context = nullptr;
    EXPECT_EQ(Calls<version>::init(fake::logger, trafficClass, &context), ncclSuccess);
    EXPECT_NE(context, nullptr);
    return context;
  }
  int trafficClassIn(void* context) {
    return trafficClassOf([&](void* handle, void** comm) {
      return Calls<version>::connect(context, 0, 5, handle, comm);
    });
  }
  void check() {
    const auto& table = VersionOf<version>::table();
    void *first = init(11), *second = init(NCCL_NET_TRAFFIC_CLASS_UNDEF), *third = init(33);
    EXPECT_EQ(trafficClassIn(third), 33);
    EXPECT_EQ(trafficClassIn(first), 11);
    EXPECT_EQ(trafficClassIn(second), NCCL_NET_TRAFFIC_CLASS_UNDEF);
    EXPECT_EQ(table.finalize(first), ncclSuccess);
    EXPECT_EQ(trafficClassIn(third), 33);
    EXPECT_EQ(trafficClassIn(nullptr), NCCL_NET_TRAFFIC_CLASS_UNDEF);
    EXPECT_EQ(table.finalize(third), ncclSuccess);
    EXPECT_EQ(table.finalize(second), ncclSuccess);
    EXPECT_EQ(table.finalize(nullptr), ncclSuccess);
  }
  void checkInit() {
    const auto& table = VersionOf<version>::table();
    void* context = nullptr;
    EXPECT_EQ(table.init(&context, 1, nullptr, nullptr, nullptr), ncclSuccess);
    EXPECT_EQ(trafficClassIn(context), NCCL_NET_TRAFFIC_CLASS_UNDEF);
    EXPECT_EQ(table.finalize(context), ncclSuccess);
    fake::logged.clear();
    EXPECT_EQ(table.init(nullptr, 1, nullptr, fake::logger, nullptr), ncclInvalidArgument);
    ASSERT_EQ(fake::logged.size(), 1u);
    EXPECT_NE(fake::logged[0].text.find("init: the context"), std::string::npos);
    EXPECT_EQ(table.finalize(init(3)), ncclSuccess);
  }
};
using Communicator11Test = CommunicatorTest<11>;
using Communicator12Test = CommunicatorTest<12>;

TEST_F(Communicator11Test, EachHasItsOwn) {
  check();
}
TEST_F(Communicator12Test, EachHasItsOwn) {
  check();
}
TEST_F(Communicator11Test, InitMayFailAndBeRepeated) {
  checkInit();
}
TEST_F(Communicator12Test, InitMayFailAndBeRepeated) {
  checkInit();
}

}  // namespace
}  // namespace cinch::net
