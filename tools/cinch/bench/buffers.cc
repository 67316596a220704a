#include "tools/cinch/bench/buffers.h"

#include <algorithm>

namespace cinch::bench {
namespace {

constexpr uint64_t kPart = 1 << 16;  // values

}  // namespace

DeviceBuffer::DeviceBuffer(Session& session, size_t nBytes)
    : session_(session), values_(kPart), staged_(kPart * kMaxElementBytes) {
  void* memory = nullptr;
  session.libraries().check(session.libraries().cudaMalloc(&memory, std::max<size_t>(nBytes, 1)),
                            "cudaMalloc (-e and -u say how much is needed)");
  memory_dev_ = static_cast<std::byte*>(memory);
}

DeviceBuffer::~DeviceBuffer() {
  session_.libraries().cudaFree(memory_dev_);
}

void DeviceBuffer::copy(void* to, const void* from, size_t nBytes) {
  const Library& library = session_.libraries();
  library.check(library.cudaMemcpyAsync(to, from, nBytes, cudaMemcpyDefault, session_.stream()),
                "cudaMemcpyAsync");
  library.check(library.cudaStreamSynchronize(session_.stream()), "cudaStreamSynchronize");
}

void DeviceBuffer::fill(const ElementType& type, size_t offset, uint64_t count,
                        const ValueSource& source) {
  for (uint64_t first = 0; first < count; first += kPart) {
    const std::span<double> part(values_.data(), std::min(kPart, count - first));
    source(first, part);
    storeValues(type, part, staged_.data());
    copy(memory_dev_ + offset + first * type.bytes, staged_.data(), part.size() * type.bytes);
  }
}

void DeviceBuffer::read(
    const ElementType& type, size_t offset, uint64_t count,
    const std::function<void(uint64_t first, std::span<const double> values)>& sink) {
  for (uint64_t first = 0; first < count; first += kPart) {
    const std::span<double> part(values_.data(), std::min(kPart, count - first));
    copy(staged_.data(), memory_dev_ + offset + first * type.bytes, part.size() * type.bytes);
    loadValues(type, staged_.data(), part);
    sink(first, part);
  }
}

void DeviceBuffer::copyFrom(const DeviceBuffer& other, size_t offset, size_t nBytes) {
  copy(memory_dev_ + offset, other.memory_dev_ + offset, nBytes);
}

}  // namespace cinch::bench
