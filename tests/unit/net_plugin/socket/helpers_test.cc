#include "net_plugin/socket/helpers.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace cinch::net {
namespace {

std::unique_ptr<Network> openNetwork() {
  auto network = Network::open({}, {{"lo", {Family::ipv4, {127, 0, 0, 1}}, true}});
  EXPECT_TRUE(network.ok());
  return std::move(network.value());
}

Params defaults() {
  const char* none[] = {nullptr};
  return readParams(none).params;
}

// Expects that `check` holds in a child, whose end is that of its helpers and of what they use.
template <class Check>
void expectInChild(const Params& params, Check check) {
  const pid_t child = fork();
  if (child == 0) {
    Network& network = *openNetwork().release();
    _exit(check(network, *new StatisticsFile(network, params)) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// By name: sanitizers have threads, too. A thread names itself when it begins.
int countHelpers() {
  int n = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    n += std::getline(std::ifstream(thread.path() / "comm"), name) && name == "cinch-net";
  }
  return n;
}

bool haveHelpers(int n) {
  const Deadline deadline = deadlineIn(std::chrono::seconds(10));
  while (countHelpers() < n && Clock::now() < deadline) std::this_thread::yield();
  return countHelpers() == n;
}

TEST(Helpers, AreOneAtLeast) {
  for (const int n : {0, 1, 3}) {
    SCOPED_TRACE(n);
    expectInChild(defaults(), [n](Network& network, StatisticsFile& report) {
      const auto helpers = Helpers::start(network, report, n);
      return helpers.ok() && haveHelpers(std::max(n, 1));
    });
  }
}

TEST(Helpers, SayWhyThereIsNoThread) {
  expectInChild(defaults(), [](Network& network, StatisticsFile& report) {
    // No address space has room for such a stack.
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size_t{1} << 50);
    if (pthread_setattr_default_np(&attributes) != 0) return false;
    const auto helpers = Helpers::start(network, report, 2);
    return !helpers.ok() && helpers.error().message.find("helper thread: ") != std::string::npos &&
           countHelpers() == 0;
  });
}

TEST(Helpers, WriteTheReport) {
  const std::string path = testing::TempDir() + "helpers_test_report." + std::to_string(getpid());
  Params params = defaults();
  params.stats = path;
  params.statsInterval = 1;
  expectInChild(params, [&](Network& network, StatisticsFile& report) {
    if (!Helpers::start(network, report, 1).ok()) return false;
    const auto isThere = [&](const char* end) { return access((path + end).c_str(), R_OK) == 0; };
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (Clock::now() < deadline && !(isThere(".net.txt") && isThere(".net.json"))) {
      poll(nullptr, 0, 10);
    }
    return isThere(".net.txt") && isThere(".net.json");
  });
  std::ifstream text(path + ".net.txt");
  std::string firstLine;
  std::getline(text, firstLine);
  EXPECT_EQ(firstLine, "Cinch network report");
  for (const char* end : {".net.txt", ".net.json"}) unlink((path + end).c_str());
}

}  // namespace
}  // namespace cinch::net
