// Runs a test as real processes, one per rank: forked before any of them touches the libraries,
// with a deadline after which all are killed and the test fails.
#pragma once

#include <nccl.h>
#include <pthread.h>
#include <sys/types.h>

#include <functional>
#include <string>

namespace cinch::test {

// For what would hang. Sanitizers slow everything down.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int kDeadlineSeconds = 300;
#else
inline constexpr int kDeadlineSeconds = 60;
#endif

// What one rank's process knows. GoogleTest's EXPECT and ASSERT work in it as usual.
class RankProcess {
 public:
  struct Shared;

  RankProcess(int rank, int nRanks, const int* idPipe, Shared* shared)
      : rank_(rank), nRanks_(nRanks), idPipe_(idPipe), shared_(shared) {}

  int rank() const { return rank_; }
  int nRanks() const { return nRanks_; }

  // A unique id that rank 0 makes, the same on all ranks. Collective.
  ncclUniqueId exchangeId() const;
  // A communicator of all ranks; a failure to make it fails the test. Collective.
  ncclComm_t createCommunicator() const;
  // Waits for all ranks' processes.
  void barrier() const;
  // Kills the process of another rank, for good.
  void kill(int rank) const;

 private:
  int rank_;
  int nRanks_;
  const int* idPipe_;
  Shared* shared_;
};

struct RankOptions {
  int deadlineSeconds = kDeadlineSeconds;
  int expectedToDie = -1;  // the rank that is killed on purpose
};

// Runs `body` on `nRanks` processes and expects all of them to succeed.
void runRanks(int nRanks, const std::function<void(RankProcess&)>& body, RankOptions options = {});

// Fails the test, with the library's own explanation, where `result` is not ncclSuccess.
void expectSuccess(ncclResult_t result, const char* call);

}  // namespace cinch::test

#define EXPECT_NCCL(call) ::cinch::test::expectSuccess((call), #call)
