// An NCCL communicator with a watchdog: no call on it waits for ever for a rank that is gone.
#pragma once

#include <nccl.h>

#include <functional>
#include <string>

#include "examples/lm/device.h"

namespace lm {

// Throws where `result` is an error, naming the call and NCCL's own account of it.
void checkNccl(ncclResult_t result, const std::string& call);

// A new ncclUniqueId, as bytes.
std::string makeUniqueId();

class Communicator {
 public:
  // Joins the communicator that `uniqueId` names; ends the process where the others do not.
  Communicator(int rank, int ranks, const std::string& uniqueId, int timeoutSeconds);
  // Aborts the communicator unless it was closed.
  ~Communicator();

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Stream& stream() { return stream_; }

  // Enqueues the collective that `call` makes with (communicator, stream) and waits for its end.
  // While it waits it asks NCCL for errors; on one, or when the time is over, aborts the
  // communicator and throws.
  void run(const char* name, const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& call);
  void close();

 private:
  void wait(const char* name);
  [[noreturn]] void fail(const std::string& reason);
  void abort();

  int rank_;
  int ranks_;
  int timeoutSeconds_;
  Stream stream_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace lm
