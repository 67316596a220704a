// The same call once more, beside itself in one launch: whether two whose codes are right keep out
// of each other's way.
#pragma once

#include <cstring>
#include <vector>

#include "tests/unit/kernels/support.h"

namespace cinch::test {

// Where a launch writes what follows from what it reads alone; empty where it also changes what it
// reads, as residuals.
struct Written {
  void* memory = nullptr;
  size_t nBytes = 0;
};
inline Written writtenBy(const EncodeLaunch& launch) {
  if (launch.residual) return {};
  return {launch.output, launch.call.layout.totalBytes()};
}
inline Written writtenBy(const ReduceLaunch& launch) {
  if (launch.residual || launch.ownResidual || launch.values == launch.ownInput) return {};
  if (!launch.values) return {launch.output, launch.call.layout.strideBytes()};
  return {launch.values,
          launch.call.layout.shardElems(launch.shard) * elementBytes(launch.call.type)};
}
inline Written writtenBy(const DecodeLaunch& launch) {
  return {launch.output, launch.call.layout.count * elementBytes(launch.call.type)};
}

inline void writeTo(EncodeLaunch& launch, uint8_t* memory) {
  launch.output = memory;
}
inline void writeTo(ReduceLaunch& launch, uint8_t* memory) {
  if (launch.values)
    launch.values = memory;
  else
    launch.output = memory;
}
inline void writeTo(DecodeLaunch& launch, uint8_t* memory) {
  launch.output = memory;
}

// All that is its own, on the host. `launch` and its memory outlive it.
template <class Launch>
class Twin {
 public:
  explicit Twin(const Launch& launch)
      : launch_(launch),
        written_(writtenBy(launch)),
        state_(*launch.call.state),
        fault_(*launch.call.fault),
        memory_(written_.nBytes / sizeof(Unit) + 1) {
    if (written_.nBytes > 0) std::memcpy(memory_.data(), written_.memory, written_.nBytes);
  }

  bool isThere() const { return written_.memory != nullptr; }
  Launch launch() {
    Launch own = launch_;
    own.call.state = &state_;
    own.call.fault = &fault_;
    writeTo(own, memory_.front().bytes);
    return own;
  }
  // Whether both have left the same.
  bool isAlike() const {
    return (written_.nBytes == 0 ||
            std::memcmp(memory_.data(), written_.memory, written_.nBytes) == 0) &&
           state_.ordinal == launch_.call.state->ordinal && fault_ == *launch_.call.fault;
  }

 private:
  struct alignas(16) Unit {
    uint8_t bytes[16];
  };

  const Launch& launch_;
  const Written written_;
  SlotState state_;
  uint32_t fault_;
  std::vector<Unit> memory_;
};

}  // namespace cinch::test
