// Device memory of a rank: what it sends and what it receives, filled and read through the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tools/cinch/bench/element_type.h"
#include "tools/cinch/bench/session.h"

namespace cinch::bench {

// Gives the values from `first` on.
using ValueSource = std::function<void(uint64_t first, std::span<double> values)>;

class DeviceBuffer {
 public:
  DeviceBuffer(Session& session, size_t nBytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  std::byte* data() const { return memory_dev_; }
  // Writes `count` values from the byte `offset` on.
  void fill(const ElementType& type, size_t offset, uint64_t count, const ValueSource& source);
  // Hands out `count` values from the byte `offset` on, in parts.
  void read(const ElementType& type, size_t offset, uint64_t count,
            const std::function<void(uint64_t first, std::span<const double> values)>& sink);
  // Takes over `nBytes` bytes from `offset` on.
  void copyFrom(const DeviceBuffer& other, size_t offset, size_t nBytes);

 private:
  void copy(void* to, const void* from, size_t nBytes);

  Session& session_;
  std::byte* memory_dev_ = nullptr;
  std::vector<double> values_;     // of one part
  std::vector<std::byte> staged_;  // the same, as elements
};

}  // namespace cinch::bench
