// A few values of the buffers of a call, copied from the device for CINCH_CALL_LOG.
//
// Copies are put on the caller's own stream, into host memory that was allocated before, and read
// when an event says that they have arrived: no thread waits, and the program's work is neither
// reordered nor changed.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "common/nccl_types.h"
#include "interpose/comm/buffer.h"

namespace cinch {

// What a call reads or writes; nothing where `data_dev` is null.
struct DeviceValues {
  const void* data_dev = nullptr;
  uint64_t count = 0;
  ncclDataType_t type = ncclFloat32;
};

// Floating point values, or integers.
using SampledValues = std::variant<std::vector<double>, std::vector<int64_t>>;
inline bool isEmpty(const SampledValues& values) {
  return std::visit([](const auto& all) { return all.empty(); }, values);
}

// The samples of one call.
class ValueSample {
 public:
  // That many values of a buffer, evenly spaced: value i is at (2i + 1) count / 32.
  static constexpr uint32_t kValues = 16;

  // Puts copies on `stream`, of a buffer of floating point values before the call and after it.
  // Device errors end the sample: it never arrives.
  void copyInput(const DeviceValues& values, void* stream);
  void copyOutput(const DeviceValues& values, void* stream);
  // All of an integer message that was received.
  void copyMessage(const DeviceValues& values, void* stream);
  // Nothing more will be copied.
  void close(void* stream);

  bool hasArrived() const { return isClosed_ && arrived_.done(); }
  // What has arrived; nothing where it was not copied.
  SampledValues input() const { return read(input_); }
  SampledValues output() const { return read(output_); }

 private:
  friend class SamplePool;
  struct Part {
    uint32_t offset = 0;  // in memory_
    uint32_t nValues = 0;
    ncclDataType_t type = ncclFloat32;
  };

  Part copy(const DeviceValues& values, uint32_t nValues, void* stream);
  SampledValues read(const Part& part) const;

  const DeviceTable* device_ = nullptr;
  Event arrived_;
  uint8_t* memory_ = nullptr;
  uint32_t nBytes_ = 0, nUsed_ = 0;
  Part input_, output_;
  bool isBroken_ = false, isClosed_ = false;
};

// Samples for one device. Not thread-safe.
class SamplePool {
 public:
  // `nSamples` that hold `nBytes` each, for the current device. The capture mode must be relaxed.
  static Result<std::unique_ptr<SamplePool>> make(const DeviceTable& device, uint32_t nSamples,
                                                  uint32_t nBytes);
  uint32_t bytes() const { return nBytes_; }
  // Null where all are on their way.
  ValueSample* take();
  // Of one that has arrived, or to which nothing was copied.
  void giveBack(ValueSample* sample) { free_.push_back(sample); }

 private:
  uint32_t nBytes_ = 0;
  Buffer memory_;
  std::vector<ValueSample> samples_;
  std::vector<ValueSample*> free_;
};

}  // namespace cinch
