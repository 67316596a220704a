#include "tests/multiproc/emulator/rank_processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace cinch::test {

constexpr int kMaxRanks = 16;

struct RankProcess::Shared {
  pthread_barrier_t barrier;
  pid_t pids[kMaxRanks];
};

namespace {

RankProcess::Shared* createShared(int nRanks) {
  void* memory = mmap(nullptr, sizeof(RankProcess::Shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* shared = static_cast<RankProcess::Shared*>(memory);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &attributes, nRanks);
  pthread_barrierattr_destroy(&attributes);
  return shared;
}

[[noreturn]] void runChild(RankProcess process, const std::function<void(RankProcess&)>& body) {
  body(process);
  fflush(stdout);
  // Normal exit, as an application's: what runs then is under test too.
  exit(testing::Test::HasFailure() ? 1 : 0);
}

// One process's end, judged.
void expectGoodEnd(int rank, int status, int expectedToDie) {
  if (rank == expectedToDie) {
    EXPECT_TRUE(WIFSIGNALED(status)) << "rank " << rank << " was not killed";
    return;
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "rank " << rank << (WIFSIGNALED(status) ? " died of signal " : " failed with status ")
      << (WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

}  // namespace

ncclUniqueId RankProcess::exchangeId() const {
  ncclUniqueId id{};
  if (rank_ == 0) {
    EXPECT_NCCL(ncclGetUniqueId(&id));
    for (int i = 1; i < nRanks_; ++i) EXPECT_EQ(write(idPipe_[1], &id, sizeof id), ssize_t{128});
  } else {
    EXPECT_EQ(read(idPipe_[0], &id, sizeof id), ssize_t{128});
  }
  barrier();  // nobody may read a second id before all have read the first
  return id;
}

ncclComm_t RankProcess::createCommunicator() const {
  ncclComm_t comm = nullptr;
  EXPECT_NCCL(ncclCommInitRank(&comm, nRanks_, exchangeId(), rank_));
  return comm;
}

void RankProcess::barrier() const {
  pthread_barrier_wait(&shared_->barrier);
}

void RankProcess::kill(int rank) const {
  ::kill(shared_->pids[rank], SIGKILL);
}

void runRanks(int nRanks, const std::function<void(RankProcess&)>& body, RankOptions options) {
  ASSERT_LE(nRanks, kMaxRanks);
  int idPipe[2];
  ASSERT_EQ(pipe(idPipe), 0);
  RankProcess::Shared* shared = createShared(nRanks);
  fflush(stdout);
  for (int rank = 0; rank < nRanks; ++rank) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) runChild(RankProcess(rank, nRanks, idPipe, shared), body);
    shared->pids[rank] = pid;
  }
  // A watchdog process: it outlives the deadline only if the ranks do.
  const pid_t watchdog = fork();
  if (watchdog == 0) {
    ::sleep(options.deadlineSeconds);
    fprintf(stderr, "deadline of %d s passed: killing the ranks\n", options.deadlineSeconds);
    for (int rank = 0; rank < nRanks; ++rank) ::kill(shared->pids[rank], SIGKILL);
    _exit(0);
  }
  for (int rank = 0; rank < nRanks; ++rank) {
    int status = 0;
    EXPECT_EQ(waitpid(shared->pids[rank], &status, 0), shared->pids[rank]);
    expectGoodEnd(rank, status, options.expectedToDie);
  }
  ::kill(watchdog, SIGKILL);
  waitpid(watchdog, nullptr, 0);
  close(idPipe[0]);
  close(idPipe[1]);
  munmap(shared, sizeof *shared);
}

void expectSuccess(ncclResult_t result, const char* call) {
  EXPECT_EQ(result, ncclSuccess) << call << ": " << ncclGetErrorString(result) << ": "
                                 << ncclGetLastError(nullptr);
}

}  // namespace cinch::test
