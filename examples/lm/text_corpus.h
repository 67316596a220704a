// The text that the model learns from, cut into blocks of which every sixteenth is held out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lm {

// `size()` samples: `context` bytes each, and the byte that follows.
struct Batch {
  std::vector<uint8_t> contexts;
  std::vector<uint8_t> targets;
  size_t size() const { return targets.size(); }
};

class TextCorpus {
 public:
  static constexpr size_t kBlockBytes = 4096;
  static constexpr size_t kHoldOutEvery = 16;  // the last of every 16 blocks: 6 %
  static constexpr size_t kMinBytes = kBlockBytes * kHoldOutEvery;
  static constexpr size_t kMaxBytes = size_t{256} << 20;  // more is not read

  // Reads `path`, or where it is empty CMake's help files. Throws std::runtime_error, which names
  // the file and the reason, where that is unreadable or smaller than kMinBytes.
  static TextCorpus load(const std::string& path);
  explicit TextCorpus(std::string text, const std::string& name = "the text");

  size_t bytes() const { return text_.size(); }
  // A batch that depends on nothing but its arguments.
  Batch trainingBatch(uint64_t seed, uint64_t step, int rank, size_t size, size_t context) const;
  // Samples first, first + stride, ... of `total` fixed positions spread over the held-out blocks.
  Batch heldOutBatch(size_t total, size_t first, size_t stride, size_t context) const;

 private:
  size_t heldOutBlocks() const { return text_.size() / kBlockBytes / kHoldOutEvery; }
  void addSample(size_t position, size_t context, Batch& batch) const;

  std::string text_;
};

// The paths of CMake's help files on this machine, sorted; empty where it has none.
std::vector<std::string> cmakeHelpFiles(const std::string& share = "/usr/share");

}  // namespace lm
