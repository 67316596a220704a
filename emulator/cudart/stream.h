// Streams, and the rules by which the null stream orders itself with the others.
//
// Work of a blocking stream waits for the earlier work of the null stream, and work of the null
// stream waits for the earlier work of all blocking streams. Every wait is for work that was
// submitted before it, so waits never form a circle.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "emulator/cudart/queue.h"
#include "emulator/include/cuda_runtime_api.h"

namespace cinch::cudart {

// What a stream is asked to be; priorities and devices are remembered and change nothing.
struct StreamTraits {
  unsigned int flags = cudaStreamDefault;
  int priority = 0;
  int device = -1;  // -1: the one that a caller uses, as for the null stream
};

// One stream. Its destructor lets submitted work finish, and does not wait for it. Thread-safe.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(StreamTraits traits);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const StreamTraits& traits() const { return traits_; }
  bool isLegacy() const;    // the null stream
  bool isBlocking() const;  // ordered with the null stream, and not it

  // Runs `task` after all earlier work of the stream, and of the streams that it is ordered with.
  Ticket submit(Task task);

  // Reached when all of that earlier work is done. May enqueue waits.
  Ticket mark();

  // Makes later work wait until `ticket` is reached.
  void waitFor(const Ticket& ticket);

  // Reached when the work submitted to this stream alone is done.
  Ticket tail() const { return {queue_, queue_->tail()}; }

  // While the caller has it, other threads cannot submit work to this stream, nor to one that is
  // ordered with it by the null stream's rules.
  std::unique_lock<std::recursive_mutex> hold() const { return std::unique_lock(*submission_); }

  // Whether all work of the stream is done, for the null stream also that of the blocking streams.
  bool idle() const { return pending().empty(); }
  // Sleeps until all such work that is submitted now is done.
  void synchronize() const;

 private:
  void joinOthers();
  std::vector<Ticket> pending() const;

  const StreamTraits traits_;
  const std::shared_ptr<Queue> queue_;
  const std::shared_ptr<std::recursive_mutex> submission_;
};

// The stream of a handle; null where the handle is not live. 0 and cudaStreamLegacy are the null
// stream, cudaStreamPerThread is the calling thread's own.
std::shared_ptr<Stream> findStream(cudaStream_t handle);

cudaStream_t createStream(StreamTraits traits);
// False where the handle is not live, or is one of the three above.
bool destroyStream(cudaStream_t handle);
void destroyAllStreams();

// The stream's device, or the calling thread's.
int deviceOf(const Stream& stream);

// Waits for all work that was submitted to any stream, also to those destroyed since.
void synchronizeDevice();

}  // namespace cinch::cudart
