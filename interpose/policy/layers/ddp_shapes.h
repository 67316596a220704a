// The shapes of a model's parameters, in the numbers that PyTorch DDP sends. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cinch {

// The sizes of every parameter followed by its strides, without a mark where one parameter ends
// and the next begins: 3 64 64 1 can only be one matrix, but 8 1 1 1 is two vectors as well. A
// shape is read where the strides are those of a contiguous or a channels-last tensor. A parameter
// without dimensions leaves no trace in the numbers.
class DdpShapes {
 public:
  // Null unless the numbers can be read as at most nParameters shapes.
  static std::optional<DdpShapes> read(uint32_t nParameters, std::span<const int64_t> numbers);

  uint32_t nParameters() const { return nParameters_; }
  // The elements of the shape of `dims` dimensions (1 to kMaxDims) that begins at a position; 0
  // where there is none.
  uint64_t elements(uint32_t position, uint32_t dims) const {
    return elements_[position][dims - 1];
  }
  // False when the numbers from a position on (up to and including their end) are no nShapes shapes
  // of nElements in all; true when they may be.
  bool canFollow(uint32_t position, uint32_t nShapes, uint64_t nElements) const {
    const Rest& rest = rests_[position];
    return rest.fewest <= nShapes && nShapes <= rest.most && rest.fewestElements <= nElements &&
           nElements <= rest.mostElements;
  }
  // Bounds of how many parameters have dimensions.
  uint32_t fewestShapes() const { return rests_.front().fewest; }
  uint32_t mostShapes() const { return rests_.front().most; }

  static constexpr uint32_t kMaxParameters = 1 << 16;
  static constexpr uint32_t kMaxNumbers = 1 << 18;
  static constexpr uint32_t kMaxDims = 8;

 private:
  struct Rest {
    uint32_t fewest = 0, most = 0;  // shapes; most < fewest where none can follow
    uint64_t fewestElements = 0, mostElements = 0;
  };

  DdpShapes(uint32_t nParameters, std::span<const int64_t> numbers);
  Rest restFrom(uint32_t position) const;

  uint32_t nParameters_;
  std::vector<std::array<uint64_t, kMaxDims>> elements_;  // by position, and none at the end
  std::vector<Rest> rests_;                               // by position, and one for the end
};

}  // namespace cinch
