// One launch on bytes of a peer, as a fuzzer chose both.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/device_table.h"
#include "kernels/wire/mixed_layout.h"

namespace cinch::test {

// The fuzzer's bytes, taken from the front; zeros where there are no more.
class FuzzBytes {
 public:
  explicit FuzzBytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint32_t byte() {
    if (bytes_.empty()) return 0;
    const uint32_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }
  uint32_t below(uint32_t limit) { return (byte() | byte() << 8) % limit; }
  bool flag() { return byte() % 2; }

  // `nBytes` of what is left, over and over.
  std::vector<uint8_t> rest(size_t nBytes) const {
    std::vector<uint8_t> filled(nBytes, 0);
    for (size_t at = 0; at < nBytes && !bytes_.empty(); at += bytes_.size())
      std::memcpy(&filled[at], bytes_.data(), std::min(bytes_.size(), nBytes - at));
    return filled;
  }

 private:
  std::span<const uint8_t> bytes_;
};

// Heap memory that ends with the last byte, so that a sanitizer sees the first one read or written
// past it; it begins `offset` bytes after a boundary of 16.
class ExactBytes {
 public:
  ExactBytes(const std::vector<uint8_t>& content, size_t offset)
      : offset_(offset), size_(content.size()), memory_(new uint8_t[offset + size_]) {
    if (size_ > 0) std::memcpy(data(), content.data(), size_);
  }

  uint8_t* data() { return memory_.get() + offset_; }
  std::vector<uint8_t> content() { return {data(), data() + size_}; }

 private:
  size_t offset_, size_;
  std::unique_ptr<uint8_t[]> memory_;
};

enum class FuzzLaunch : uint8_t { decode, reduceIntoCodes, reduceIntoValues };

struct FuzzInput {
  explicit FuzzInput(FuzzBytes bytes);
  FuzzInput(const FuzzInput&) = delete;
  FuzzInput& operator=(const FuzzInput&) = delete;

  FuzzLaunch launch;
  ElementType type;
  std::optional<wire::MixedLayout> mixed;  // what `layout` refers to, if anything
  wire::ShardLayout layout;
  uint32_t shard;  // the owned one
  bool feedback;
  CodingRule rule;
  size_t codedOffset, valueOffset;  // bytes from a boundary
  std::vector<uint8_t> encoded;     // of all shards: the peer's
  std::vector<uint8_t> values;      // the own part, or what is overwritten
  std::vector<uint8_t> residual, ownerResidual;

 private:
  void chooseLayout(FuzzBytes& bytes);
  void chooseRule(FuzzBytes& bytes);
  // Puts the headers that this call expects in front of some shards.
  void putHeaders(uint32_t whichShards);
};

// What of a slot's state each launch of a FuzzInput starts from.
inline constexpr uint32_t kFuzzPlan = 0xabcd, kFuzzSlot = 2, kFuzzOrdinal = 41;

}  // namespace cinch::test
