// Memory of communicators that have ended, kept for those to come.
//
// Freeing device memory waits for all work of the device. Some of it may be a collective that waits
// for a rank which in turn waits for this very thread, or, after an abort, a kernel that never
// ends. So nothing is freed while the process has communicators.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "interpose/comm/buffer.h"
#include "interpose/comm/returnable_buffer.h"

namespace cinch {

class MemoryReserve {
 public:
  static MemoryReserve& instance();

  // Memory for the current device, kept or new. Its content is undefined. Thread-safe, as all here.
  Result<Buffer> allocate(const DeviceTable& device, size_t nBytes, Buffer::Where where);

  // Takes over what an ended communicator used on device `cudaDevice`, until `lastUse` is done.
  void keep(int cudaDevice, std::vector<Buffer> buffers, Event lastUse);

  // Takes over what may be in use for ever: never given out, never freed.
  void strand(std::vector<Buffer> buffers);
  void strand(ReturnableBuffer buffer);
  size_t nStranded();

  // The process has no communicator left: frees all that is no longer in use.
  void release();

 private:
  struct Kept {
    int cudaDevice;
    std::shared_ptr<const Event> lastUse;
    Buffer buffer;
  };
  MemoryReserve() = default;
  // Kept memory that fits and is no longer in use; none where there is none.
  Buffer take(int cudaDevice, size_t nBytes, Buffer::Where where);

  std::mutex mutex_;
  std::vector<Kept> kept_;
  std::vector<Buffer> stranded_;
  std::vector<ReturnableBuffer> strandedReturnables_;
};

}  // namespace cinch
