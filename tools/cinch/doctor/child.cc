#include "tools/cinch/doctor/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace cinch::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxOutput = 64 << 10;
constexpr int kCannotRun = 127;

[[noreturn]] void become(int output, const std::function<int()>& body) {
  setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  _exit(body());
}

// Until all writers have closed the pipe; false where `deadline` came first.
bool readAll(int pipe, Clock::time_point deadline, std::string& output) {
  char bytes[4096];
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready = {pipe, POLLIN, 0};
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) == 0) return false;
    const ssize_t got = read(pipe, bytes, sizeof bytes);
    if (got == 0) return true;
    if (got > 0 && output.size() < kMaxOutput) output.append(bytes, static_cast<size_t>(got));
  }
}

std::vector<char*> pointersTo(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts)
    pointers.push_back(const_cast<char*>(text.c_str()));  // execve does not write to them
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

ChildOutcome runApart(const std::function<int()>& body, std::chrono::seconds limit) {
  ChildOutcome outcome;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return outcome;
  const pid_t child = fork();
  if (child == 0) become(ends[1], body);
  close(ends[1]);
  if (child > 0) {
    outcome.hasEnded = readAll(ends[0], Clock::now() + limit, outcome.output);
    if (!outcome.hasEnded) kill(-child, SIGKILL);
    int waited = 0;
    waitpid(child, &waited, 0);
    outcome.status = WIFEXITED(waited) ? WEXITSTATUS(waited) : 128 + WTERMSIG(waited);
  }
  close(ends[0]);
  return outcome;
}

ChildOutcome runProgram(const std::vector<std::string>& command,
                        const std::vector<std::string>& environment, std::chrono::seconds limit) {
  const std::vector<char*> words = pointersTo(command), variables = pointersTo(environment);
  return runApart(
      [&] {
        execve(words[0], words.data(), variables.data());
        return kCannotRun;
      },
      limit);
}

}  // namespace cinch::doctor
