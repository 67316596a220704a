// One rank's communicator and stream, and what the ranks tell each other over it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tools/cinch/bench/library.h"
#include "tools/cinch/bench/world.h"

namespace cinch::bench {

// All throw std::runtime_error.
class Session {
 public:
  // Joins the job's communicator on this rank's device. `idFile`: see IdExchange.
  Session(const Library& library, const World& world, const std::string& idFile,
          int timeoutSeconds);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Library& libraries() const { return library_; }
  const World& world() const { return world_; }
  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }
  int device() const { return device_; }

  // Waits for what is on the stream; throws where the communicator reports an error, or nothing has
  // come for the time that the session was given.
  void wait(const char* what);
  // Replaces each value by what the operation makes of those of all ranks; no rank returns before
  // all have called.
  void combine(std::span<double> values, ncclRedOp_t operation);
  void barrier();
  // The text of every rank, cut to a few hundred bytes.
  std::vector<std::string> gather(const std::string& mine);
  // Ends the communicator; without it, the process is on its way out anyway.
  void close();

 private:
  void useDevice();

  const Library& library_;
  const World& world_;
  int timeoutSeconds_;
  int device_ = 0;
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
  void* figures_dev_ = nullptr;
};

}  // namespace cinch::bench
