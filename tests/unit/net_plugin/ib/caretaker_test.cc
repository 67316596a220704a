#include "net_plugin/ib/caretaker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace cinch::net::ib {
namespace {

using Duty = Caretaker::Duty;

TEST(Caretaker, VisitsAllThatThereAre) {
  Caretaker caretaker;
  caretaker.visitAll();
  int nFirst = 0, nSecond = 0;
  const Duty first(caretaker, [&] { ++nFirst; });
  {
    const Duty second(caretaker, [&] { ++nSecond; });
    caretaker.visitAll();
  }
  caretaker.visitAll();
  EXPECT_EQ(nFirst, 2);
  EXPECT_EQ(nSecond, 1);
}

TEST(Caretaker, ItsThreadVisitsWhatComesLater) {
  auto& caretaker = *new Caretaker;  // its thread lives as long as the process
  ASSERT_TRUE(caretaker.startThread().ok());
  for (int i = 0; i < 3; ++i) {
    std::atomic<int> n = 0;
    const Duty duty(caretaker, [&] { ++n; });
    while (n < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// What it visits may be gone right after.
TEST(Caretaker, WaitsForAVisitBeforeADutyEnds) {
  auto& caretaker = *new Caretaker;
  ASSERT_TRUE(caretaker.startThread().ok());
  for (int i = 0; i < 5; ++i) {
    std::atomic<bool> isThere = false, isOver = false;
    {
      const Duty duty(caretaker, [&] {
        isThere = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        isOver = true;
      });
      while (!isThere) std::this_thread::yield();
    }
    EXPECT_TRUE(isOver);
  }
}

TEST(Caretaker, ManyComeAndGoWhileItVisits) {
  auto& caretaker = *new Caretaker;
  ASSERT_TRUE(caretaker.startThread().ok());
  std::atomic<bool> isOver = false;
  std::thread visitor([&] {
    while (!isOver) caretaker.visitAll();
  });
  std::vector<std::thread> owners;
  for (int i = 0; i < 4; ++i) {
    owners.emplace_back([&] {
      for (int turn = 0; turn < 500; ++turn) {
        auto n = std::make_unique<int>(0);
        const Duty duty(caretaker, [&n] { ++*n; });
        std::this_thread::yield();
      }
    });
  }
  for (std::thread& owner : owners) owner.join();
  isOver = true;
  visitor.join();
}

}  // namespace
}  // namespace cinch::net::ib
