// The elements of a shard in memory, tile by tile, in 16-byte accesses. Whole tiles in aligned
// memory move straight between memory and registers. All others go through a window: shared memory
// that holds what is in the aligned vectors around the tile. Only the elements at a tile's ends
// then move one by one, and nothing outside of the tile is touched.
#pragma once

#include "kernels/cuda/agent/octet_words.cuh"

namespace cinch::cuda {

inline constexpr uint32_t kWindowBytes = kTileElems * sizeof(float) + kVectorBytes;

struct Windows {
  alignas(kVectorBytes) uint8_t ofWarp[kThreadsPerCta / kWarpThreads][kWindowBytes];
};

// This warp's.
__device__ inline uint8_t* windowOfWarp() {
  return sharedMemory<Windows>().ofWarp[threadIdx.x / kWarpThreads];
}

// A lane's values in its warp's window, for code that counts through slots at run time.
class ValuesInWindow {
 public:
  __device__ ValuesInWindow() : first_(reinterpret_cast<float*>(windowOfWarp()) + laneOfWarp()) {
    __syncwarp();
  }
  __device__ float& at(uint32_t slot, uint32_t i) {
    return first_[(slot * kOctetElems + i) * kWarpThreads];
  }

 private:
  float* first_;
};

// Copies bytes [begin, end) of a window, element by element where a vector is not whole. Both
// windows are aligned to vectors. All lanes of the warp call it together.
template <class Storage>
__device__ void copyWindow(const uint8_t* from, uint8_t* to, uint32_t begin, uint32_t end) {
  for (uint32_t at = laneOfWarp() * kVectorBytes; at < end; at += kWarpThreads * kVectorBytes) {
    if (at >= begin && at + kVectorBytes <= end) {
      *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + at);
    } else {
#pragma unroll 1
      for (uint32_t i = at; i < at + kVectorBytes; i += sizeof(Storage))
        if (i >= begin && i < end)
          *reinterpret_cast<Storage*>(to + i) = *reinterpret_cast<const Storage*>(from + i);
    }
  }
  __syncwarp();
}

template <class Storage>
class TileArray {
 public:
  using Words = TileWords<Storage>;

  // `elements` belongs to the shard's first value. It is not written but by store().
  __device__ explicit TileArray(const void* elements)
      : elements_(static_cast<uint8_t*>(const_cast<void*>(elements))),
        misalignment_(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(elements)) % kVectorBytes) {
  }

  // Elements that do not exist may be any. Each is read once per call: it need not stay in a cache.
  // All lanes of the warp call these together.
  __device__ Words load(uint32_t tile, TileExtent extent) const {
    Words words;
    if (isPlain(extent)) {
      const uint4* const vectors = reinterpret_cast<const uint4*>(at(tile));
      forEachVector([&](uint32_t slot, uint32_t i) {
        const uint4 vector = __ldcs(vectors + octetOf(slot) * kOctetVectors + i);
        uint32_t* const to = words.ofSlot[slot].at + i * kVectorWords;
        to[0] = vector.x, to[1] = vector.y, to[2] = vector.z, to[3] = vector.w;
      });
    } else {
      markCold();
      __syncwarp();
      copyWindow<Storage>(at(tile) - misalignment_, windowOfWarp(), misalignment_, end(extent));
      loadFromWindow(words);
    }
    return words;
  }

  __device__ void store(uint32_t tile, TileExtent extent, const Words& words) {
    if (isPlain(extent)) {
      uint4* const vectors = reinterpret_cast<uint4*>(at(tile));
      forEachVector([&](uint32_t slot, uint32_t i) {
        const uint32_t* const from = words.ofSlot[slot].at + i * kVectorWords;
        __stcs(vectors + octetOf(slot) * kOctetVectors + i,
               uint4{from[0], from[1], from[2], from[3]});
      });
    } else {
      markCold();
      storeToWindow(words);
      copyWindow<Storage>(windowOfWarp(), at(tile) - misalignment_, misalignment_, end(extent));
    }
  }

 private:
  static constexpr uint32_t kOctetBytes = kOctetElems * sizeof(Storage);
  static constexpr uint32_t kOctetVectors = kOctetBytes / kVectorBytes;
  static constexpr uint32_t kElementBits = 8 * sizeof(Storage);
  static constexpr uint32_t kPerWord = sizeof(uint32_t) / sizeof(Storage);
  // Unsigned integers of an element's size.
  using Bits = std::conditional_t<sizeof(Storage) == 2, uint16_t, uint32_t>;

  template <class Visit>
  __device__ static void forEachVector(const Visit& visit) {
#pragma unroll
    for (uint32_t slot = 0; slot < kSlots; ++slot)
#pragma unroll
      for (uint32_t i = 0; i < kOctetVectors; ++i) visit(slot, i);
  }

  __device__ bool isPlain(TileExtent extent) const {
    return misalignment_ == 0 && extent.isWhole();
  }
  __device__ uint8_t* at(uint32_t tile) const {
    return elements_ + uint64_t{tile} * (kTileElems * sizeof(Storage));
  }
  // Of the tile's elements, in its window.
  __device__ uint32_t end(TileExtent extent) const {
    return misalignment_ + extent.nValues * static_cast<uint32_t>(sizeof(Storage));
  }
  __device__ Bits* octetInWindow(uint32_t slot) const {
    return reinterpret_cast<Bits*>(windowOfWarp() + misalignment_ + octetOf(slot) * kOctetBytes);
  }

  __device__ void loadFromWindow(Words& words) const {
    words = {};
    forEachValue([&](uint32_t slot, uint32_t i) {
      const uint32_t bits = octetInWindow(slot)[i];
      words.ofSlot[slot].at[i / kPerWord] |= bits << i % kPerWord * kElementBits;
    });
  }

  __device__ void storeToWindow(const Words& words) const {
    __syncwarp();
    forEachValue([&](uint32_t slot, uint32_t i) {
      const uint32_t word = words.ofSlot[slot].at[i / kPerWord];
      octetInWindow(slot)[i] = static_cast<Bits>(word >> i % kPerWord * kElementBits);
    });
    __syncwarp();
  }

  uint8_t* elements_;
  uint32_t misalignment_;
};

}  // namespace cinch::cuda
