#include "net_plugin/ib/connection.h"

#include "verbs_hosts.h"

namespace cinch::net::ib {
namespace {

TEST(VerbsConnection, MovesGroupsOfAllSizesOverAnyNumberOfQueues) {
  for (const size_t nQueues : {1, 2, 4, 8}) {
    for (const bool splits : {false, true}) {
      SCOPED_TRACE(std::to_string(nQueues) + (splits ? " queues, split" : " queues"));
      VerbsHosts hosts({.nQueues = nQueues, .splits = splits});
      ASSERT_TRUE(hosts.connect());
      Traffic traffic(hosts, {.seed = nQueues});
      traffic.run();
      EXPECT_TRUE(traffic.isComplete()) << traffic.sendError() << traffic.receiveError();
    }
  }
}

TEST(VerbsConnection, WaitsForRoomWhereQueuesAreShortOrFull) {
  HostOptions options;
  options.provider.maxQueueEntries = 8;
  options.provider.postFailure = .3;
  VerbsHosts hosts(options);
  ASSERT_TRUE(hosts.connect());
  Traffic traffic(hosts, {});
  traffic.run();
  EXPECT_TRUE(traffic.isComplete()) << traffic.sendError() << traffic.receiveError();
}

TEST(VerbsConnection, WorksWithoutInlineData) {
  HostOptions options;
  options.provider.maxInline = 0;
  VerbsHosts hosts(options);
  ASSERT_TRUE(hosts.connect());
  Traffic traffic(hosts, {});
  traffic.run();
  EXPECT_TRUE(traffic.isComplete());
}

}  // namespace
}  // namespace cinch::net::ib
