#include "tools/cinch/bench/launch.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <vector>

namespace cinch::bench {
namespace {

// How long the others may take to notice by themselves, and to say so, that one has failed.
constexpr auto kGrace = std::chrono::seconds(5);
constexpr auto kPollInterval = std::chrono::milliseconds(20);
constexpr int kFailed = 1;

pid_t startRank(const World& world, const std::function<int(const World&)>& body) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(fmt::format("cannot start a rank: {}", strerror(errno)));
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) std::_Exit(kFailed);
  std::exit(body(world));  // what runs at exit belongs to the job
}

int statusOf(int waited) {
  return WIFEXITED(waited) ? WEXITSTATUS(waited) : kFailed;
}

void endAll(const std::vector<pid_t>& ranks) {
  for (const pid_t rank : ranks) kill(rank, SIGTERM);
}

// Waits for all ranks.
int awaitRanks(std::vector<pid_t> running) {
  using Clock = std::chrono::steady_clock;
  int status = 0;
  Clock::time_point deadline = Clock::time_point::max();
  while (!running.empty()) {
    int waited = 0;
    const bool hasFailed = status != 0;
    const pid_t ended = waitpid(-1, &waited, hasFailed ? WNOHANG : 0);
    if (ended > 0) {
      std::erase(running, ended);
      if (status == 0 && statusOf(waited) != 0) deadline = Clock::now() + kGrace;
      if (status == 0) status = statusOf(waited);
    } else if (Clock::now() > deadline) {
      endAll(running);
      deadline = Clock::time_point::max();
    } else if (hasFailed) {
      std::this_thread::sleep_for(kPollInterval);
    }
  }
  return status;
}

}  // namespace

int runOwnRanks(int ranks, const std::function<int(const World&)>& body) {
  std::fflush(nullptr);  // else each rank would write it again
  const std::string job = fmt::format("own-{}", getpid());
  std::vector<pid_t> running;
  for (int rank = 0; rank < ranks; ++rank) {
    try {
      running.push_back(startRank({rank, ranks, rank, ranks, job}, body));
    } catch (const std::runtime_error&) {
      endAll(running);
      throw;
    }
  }
  return awaitRanks(std::move(running));
}

int defaultRanks() {
  std::error_code error;
  int gpus = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error))
    gpus += entry.is_directory() ? 1 : 0;
  return std::max(2, gpus);
}

}  // namespace cinch::bench
