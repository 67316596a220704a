// Two ends of a TCP connection on loopback.
#pragma once

#include <gtest/gtest.h>

#include "common/network/socket.h"

namespace cinch::net {

struct Ends {
  Socket here;
  Socket there;
};

inline Ends connected() {
  auto listener = listenOn({Family::ipv4, {127, 0, 0, 1}});
  EXPECT_TRUE(listener.ok());
  const Deadline deadline = deadlineIn(std::chrono::seconds(5));
  auto here = connectTo(localEndpoint(listener.value()), deadline);
  EXPECT_TRUE(here.ok());
  EXPECT_TRUE(waitReadable(listener.value(), deadline).value());
  auto there = acceptFrom(listener.value());
  EXPECT_TRUE(there.ok() && there.value());
  return {std::move(here.value()), std::move(there.value()->socket)};
}

}  // namespace cinch::net
