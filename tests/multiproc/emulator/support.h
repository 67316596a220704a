// What the tests of the calling surface have in common.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/multiproc/emulator/rank_processes.h"

namespace cinch::test {

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }

  operator cudaStream_t() const { return stream_; }
  void wait() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

// The state of a communicator once it is not ncclInProgress any more.
inline ncclResult_t settledState(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress && ncclCommGetAsyncError(comm, &state) == ncclSuccess) {
  }
  return state;
}

inline int rankIn(ncclComm_t comm) {
  int rank = -1;
  EXPECT_NCCL(ncclCommUserRank(comm, &rank));
  return rank;
}

// The sum that an AllReduce of `mine` gives.
inline int sumOver(ncclComm_t comm, int mine) {
  Stream stream;
  int sum = -1;
  EXPECT_NCCL(ncclAllReduce(&mine, &sum, 1, ncclInt32, ncclSum, comm, stream));
  stream.wait();
  return sum;
}

}  // namespace cinch::test
