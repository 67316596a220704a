#include "emulator/nccl/service_thread.h"

#include <gtest/gtest.h>

#include <atomic>

namespace cinch::emulator {
namespace {

TEST(ServiceThread, RunsActionsOneByOneOnOneThread) {
  ServiceThread service(0);
  std::thread::id first, second;
  service.run([&] { first = std::this_thread::get_id(); });
  service.run([&] { second = std::this_thread::get_id(); });
  EXPECT_NE(first, std::thread::id());
  EXPECT_EQ(first, second);
  EXPECT_NE(first, std::this_thread::get_id());
}

TEST(ServiceThread, TriesAgainUntilItSucceeds) {
  ServiceThread service(0);
  std::atomic<int> nCalls{0};
  service.retry([&] {
    const bool done = nCalls.fetch_add(1) == 4;
    if (done) nCalls.notify_all();
    return done;
  });
  for (int seen = nCalls; seen < 5; seen = nCalls) std::this_thread::yield();
  service.run([] {});
  service.run([] {});
  EXPECT_EQ(nCalls, 5) << "not once more";
}

// One that waits does not hold another up: here each needs the other.
TEST(ServiceThread, TakesTurns) {
  ServiceThread service(0);
  std::atomic<int> turn{0};
  std::atomic<int> nDone{0};
  const auto player = [&](int parity) {
    return [&, parity] {
      if (turn % 2 == parity && turn < 20) ++turn;
      if (turn < 20) return false;
      ++nDone;
      return true;
    };
  };
  service.retry(player(0));
  service.retry(player(1));
  while (nDone < 2) std::this_thread::yield();
  EXPECT_EQ(turn, 20);
}

TEST(ServiceThread, GivesUpWhatDoesNotSucceed) {
  ServiceThread service(0);
  std::atomic<bool> stopped{false};
  std::atomic<int> nCalls{0};
  service.retry([&] {
    EXPECT_FALSE(stopped);
    ++nCalls;
    return false;
  });
  std::thread::id server, last;
  service.run([&] { server = std::this_thread::get_id(); });
  service.stop([&] {
    stopped = true;
    last = std::this_thread::get_id();
  });
  EXPECT_EQ(last, server) << "what closes runs on the thread that opened";
  EXPECT_GT(nCalls, 0);
}

}  // namespace
}  // namespace cinch::emulator
