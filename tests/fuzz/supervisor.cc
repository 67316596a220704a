#include "tests/fuzz/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#include "tests/fuzz/blackboard.h"
#include "tests/fuzz/lane.h"

namespace cinch::fuzz {
namespace {

constexpr int kGrace = 3;  // seconds that hung processes get to say where they are
constexpr int kMaxRanks = 8;

// Where the threads of this process are, for the handler of SIGALRM.
Position positions[kMaxRanks][2];
int outFile = -1;
const Program* running = nullptr;

void append(const std::string& text) {
  if (write(outFile, text.data(), text.size()) != static_cast<ssize_t>(text.size())) abort();
}

// The process is stuck and about to end: formatting, unsafe in a handler as it is, is tried.
void onDeadline(int) {
  for (int rank = 0; rank < running->nRanks(); ++rank)
    for (Position& position : positions[rank]) {
      const Stepped* at = position.load();
      if (at == nullptr) continue;
      const std::string what = describe(*running, at->action);
      append("hung " + std::to_string(rank) + " step " + std::to_string(at->step) + ' ' + what +
             '\n');
    }
  _exit(1);
}

std::string runRank(const Program& program, int rank, Blackboard& blackboard,
                    const Tolerance& tolerance) {
  RankState state(program, rank, blackboard, tolerance);
  Lane lane(state, positions[rank], 0);
  lane.run(program.ranks[rank]);
  for (Position& position : positions[rank]) position.store(nullptr);
  return lane.takeText();
}

[[noreturn]] void runProcess(const Program& program, int process, Blackboard& blackboard,
                             const RunSettings& settings) {
  signal(SIGALRM, onDeadline);
  const int host = process / settings.ranksPerHost;
  setenv("NCCL_HOSTID", ("fuzz-host-" + std::to_string(host)).c_str(), 1);
  std::vector<std::string> texts(program.ranks.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < program.nRanks(); ++rank)
    if (program.processOf[rank] == process)
      threads.emplace_back(
          [&, rank] { texts[rank] = runRank(program, rank, blackboard, settings.tolerance); });
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (const std::string& text : texts) all += text;
  append(all);
  // The processes of a job end together: one of them serves the others' agreement.
  blackboard.meet(program.nProcesses());
  exit(0);
}

// Waits for one of `children` to end, until `until`. False: the time is over.
bool reap(std::vector<pid_t>& children, time_t until, std::string& report) {
  int status = 0;
  const pid_t ended = waitpid(-1, &status, WNOHANG);
  if (ended > 0) {
    std::erase(children, ended);
    if (status != 0)
      report += "died process status " +
                std::to_string(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status)) +
                '\n';
    return true;
  }
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  const time_t left = until - time(nullptr);
  const timespec timeout{std::max<time_t>(left, 0), 0};
  return sigtimedwait(&child, nullptr, &timeout) > 0 || errno == EINTR;
}

void signalAll(const std::vector<pid_t>& children, int number) {
  for (const pid_t child : children) kill(child, number);
}

void await(std::vector<pid_t>& children, int deadline, std::string& report) {
  time_t until = time(nullptr) + deadline;
  for (const int number : {SIGALRM, SIGKILL}) {
    while (!children.empty() && report.empty() && reap(children, until, report)) {
    }
    if (children.empty()) return;
    // One is lost or the time is over: the others would wait for ever.
    report += "stopped\n";
    signalAll(children, number);
    until = time(nullptr) + kGrace;
    while (!children.empty() && reap(children, until, report)) {
    }
  }
}

}  // namespace

void runProgram(uint64_t seed, const RunSettings& settings) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);
  if (outFile < 0) outFile = open(settings.outPath.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);

  const Program program = without(generate(seed, settings.features), settings.dropped);
  running = &program;
  const auto blackboard = Blackboard::create();
  append("begin " + std::to_string(seed) + '\n');
  std::vector<pid_t> children;
  for (int process = 0; process < program.nProcesses(); ++process) {
    const pid_t forked = fork();
    if (forked == 0) {
      sigprocmask(SIG_UNBLOCK, &child, nullptr);
      runProcess(program, process, *blackboard, settings);
    }
    children.push_back(forked);
  }
  std::string report;
  await(children, settings.deadline, report);
  append(report + "end " + std::to_string(seed) + '\n');
}

}  // namespace cinch::fuzz
