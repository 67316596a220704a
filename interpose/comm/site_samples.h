// Values of the buffers of some calls of each site of a step, at the same places before and after
// the call: what policy/value_evidence.h judges.
//
// Copies are put on the caller's own stream, into host memory that is allocated with the first one,
// and read when an event says that they have arrived. Not thread-safe.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "interpose/comm/comm_resources.h"
#include "interpose/comm/value_sample.h"
#include "interpose/policy/value_evidence.h"

namespace cinch {

class SiteSamples {
 public:
  // One more than what is measured, for the next result is compared with all of these.
  static constexpr uint32_t kCalls = kMeasuredCalls + 1;
  // Host memory of one communicator, for 128 Ki places before and after a call.
  static constexpr size_t kMaxBytes = size_t{1} << 20;

  // `counts`: the values of each site's buffer.
  SiteSamples(const CommResources& resources, std::vector<uint64_t> counts);
  ~SiteSamples();
  SiteSamples(const SiteSamples&) = delete;
  SiteSamples& operator=(const SiteSamples&) = delete;

  // Around a call, whose sample is one of kCalls in a ring: it takes the place of an older one.
  // Where there is no memory, or the device refuses a copy, there is no sample.
  void begin(uint32_t site, uint32_t sample, const DeviceValues& input, void* stream);
  void end(uint32_t site, uint32_t sample, const DeviceValues& output, void* stream);
  void forget(uint32_t site);

  // What is copied to the sample is no longer on its way; and of all samples.
  bool isFree(uint32_t site, uint32_t sample) const;
  bool hasArrived() const;
  // `n` samples of the ring from `first` on, without those that have not arrived.
  std::vector<SampledCall> read(uint32_t site, uint32_t first, uint32_t n) const;
  SampledRuns runs(uint32_t site) const { return {runsOf(counts_[site]).length}; }

 private:
  struct Sample {
    std::optional<ncclDataType_t> input, output;  // what was copied
    Event arrived;
    bool isClosed = false;
  };
  // Where the values of a site are taken from.
  struct Runs {
    uint64_t length = 0;
    uint32_t n = 0;
  };

  bool allocate();
  Runs runsOf(uint64_t count) const;
  char* memoryOf(uint32_t site, uint32_t sample, bool isOutput) const;
  std::optional<ncclDataType_t> copy(const DeviceValues& values, char* to, void* stream) const;
  std::vector<float> readPart(uint32_t site, uint32_t sample, bool isOutput) const;

  const DeviceTable& device_;
  const int cudaDevice_;
  const std::vector<uint64_t> counts_;
  std::vector<std::array<Sample, kCalls>> samples_;  // by site
  Buffer memory_;
  bool hasNoMemory_ = false;
};

}  // namespace cinch
