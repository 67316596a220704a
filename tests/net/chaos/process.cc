#include "tests/net/chaos/process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/net/chaos/failure.h"

namespace cinch::chaos {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Process::Process(std::string name, Progress& progress, const Body& body)
    : Process(std::move(name), progress, makePost(), body) {}

Process::Process(std::string name, Progress& progress, PostPair post, const Body& body)
    : name_(std::move(name)), progress_(progress), post_(std::move(post.test)) {
  pid_ = fork();
  CINCH_CHECK(pid_ >= 0, "cannot fork");
  if (pid_ > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setProcessName(name_.c_str());
  body(post.process, progress_);
  exit(0);
}

Process::~Process() {
  kill();
}

void Process::stop() const {
  ::kill(pid_, SIGSTOP);
}

void Process::resume() const {
  ::kill(pid_, SIGCONT);
}

void Process::kill() {
  if (ended()) return;
  ::kill(pid_, SIGKILL);
  wait();
}

std::optional<int> Process::ended() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_;
}

int Process::wait() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, 0) == pid_) status_ = status;
  return status_.value_or(0);
}

std::string Process::whereabouts() const {
  const std::filesystem::path folder = "/proc/" + std::to_string(pid_);
  std::string text = name_ + " (" + std::to_string(pid_) + "): " + progress_.text();
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(folder / "task", gone)) {
    text += "\n  thread " + task.path().filename().string() + " " + contents(task.path() / "comm");
    text += "    wchan " + contents(task.path() / "wchan") + "\n" + contents(task.path() / "stack");
  }
  return text;
}

std::string describeEnd(int status) {
  if (WIFEXITED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

}  // namespace cinch::chaos
