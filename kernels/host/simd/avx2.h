// What the vector code of this folder needs of AVX2; avx512.h says what each function does.
//
// Include only where these instructions are switched on for everything that follows (avx2.cc).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <limits>

namespace cinch::host {

struct Avx2 {
  using Floats = __m256;
  static constexpr uint32_t kLanes = 8;

  static Floats broadcast(float value) { return _mm256_set1_ps(value); }
  static Floats load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(Floats values, float* to) { _mm256_storeu_ps(to, values); }

  static Floats larger(Floats a, Floats b) { return _mm256_max_ps(a, b); }
  static Floats smaller(Floats a, Floats b) { return _mm256_min_ps(a, b); }
  static float largest(Floats values) {
    const __m128 four =
        _mm_max_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
  static float smallest(Floats values) {
    const __m128 four =
        _mm_min_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
    const __m128 two = _mm_min_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_min_ss(two, _mm_movehdup_ps(two)));
  }
  static Floats magnitude(Floats values) { return _mm256_andnot_ps(broadcast(-0.0f), values); }

  static Floats largerMagnitude(Floats a, Floats b) {
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  static Floats clampFromZero(Floats values, float top) {
    const __m256i atLeast = _mm256_max_epi32(_mm256_castps_si256(values), _mm256_setzero_si256());
    return _mm256_castsi256_ps(_mm256_min_epi32(atLeast, _mm256_castps_si256(broadcast(top))));
  }

  static bool areFinite(Floats values) { return _mm256_movemask_ps(finite(values)) == 0xff; }
  static Floats zeroWhereNotFinite(Floats values) { return _mm256_and_ps(finite(values), values); }

  static Floats withSigns(Floats values, uint32_t signs) {
    const __m256i onTop = _mm256_sllv_epi32(_mm256_set1_epi32(static_cast<int>(signs)),
                                            _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24));
    return _mm256_xor_ps(values, _mm256_and_ps(_mm256_castsi256_ps(onTop), broadcast(-0.0f)));
  }
  static Floats butterflies(Floats v) {
    v = butterfly<0b10101010>(v, _mm256_permute_ps(v, 0b10110001));
    v = butterfly<0b11001100>(v, _mm256_permute_ps(v, 0b01001110));
    return butterfly<0b11110000>(v, _mm256_permute2f128_ps(v, v, 1));
  }

  using CodeBytes = __m256i;

  static CodeBytes lowBytes(Floats a, Floats b, Floats c, Floats d) {
    const __m256i quads = _mm256_packus_epi16(_mm256_packus_epi32(lowByte(a), lowByte(b)),
                                              _mm256_packus_epi32(lowByte(c), lowByte(d)));
    return _mm256_permutevar8x32_epi32(quads, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
  template <uint32_t shift, uint32_t width>
  static CodeBytes bitsOf(CodeBytes codes) {
    return _mm256_and_si256(_mm256_srli_epi16(codes, shift), _mm256_set1_epi8((1 << width) - 1));
  }
  template <uint32_t width>
  static void storePlane(CodeBytes codes, uint8_t* to) {
    if constexpr (width == 8) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), codes);
    } else if constexpr (width == 1) {
      const int plane = _mm256_movemask_epi8(_mm256_slli_epi16(codes, 7));
      std::memcpy(to, &plane, sizeof plane);
    } else {
      const __m256i pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(1 | 1 << (8 + width)));
      if constexpr (width == 4) {
        const __m256i bytes = _mm256_packus_epi16(pairs, pairs);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                         _mm256_castsi256_si128(_mm256_permute4x64_epi64(bytes, 0b1000)));
      } else {
        const __m256i quads = _mm256_madd_epi16(pairs, _mm256_set1_epi32(1 | 16 << 16));
        const __m256i halves = _mm256_packus_epi32(quads, quads);
        const __m256i bytes = _mm256_packus_epi16(halves, halves);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to),
                         _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(
                             bytes, _mm256_setr_epi32(0, 4, 0, 0, 0, 0, 0, 0))));
      }
    }
  }

  using Codes = __m256i;

  template <uint32_t width>
  static Codes fromPlane(const uint8_t* from) {
    if constexpr (width == 8) {
      return _mm256_cvtepu8_epi32(_mm_loadu_si64(from));
    } else {
      uint32_t word = 0;
      std::memcpy(&word, from, width);
      return _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(word)), multiplesOf(width));
    }
  }
  template <uint32_t width>
  static Codes lowBits(Codes codes) {
    return _mm256_and_si256(codes, _mm256_set1_epi32((1 << width) - 1));
  }
  template <uint32_t shift>
  static Codes withHighBits(Codes low, Codes high) {
    return _mm256_or_si256(low, _mm256_slli_epi32(high, shift));
  }
  static Floats toFloats(Codes codes) { return _mm256_cvtepi32_ps(codes); }

  struct Table {
    __m256 low, high;
  };
  static Table loadTable(const float* values) {
    return {_mm256_loadu_ps(values), _mm256_loadu_ps(values + kLanes)};
  }
  static Floats lookUp(Table table, Codes codes) {
    const __m256 isHigh = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));  // in the top bit
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.low, codes),
                            _mm256_permutevar8x32_ps(table.high, codes), isHigh);
  }

 private:
  template <int upper>
  static Floats butterfly(Floats values, Floats others) {
    return _mm256_blend_ps(others + values, others - values, upper);
  }

  static __m256 finite(Floats values) {
    return _mm256_cmp_ps(magnitude(values), broadcast(std::numeric_limits<float>::infinity()),
                         _CMP_LT_OQ);
  }
  static __m256i lowByte(Floats values) {
    return _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(0xff));
  }
  static __m256i multiplesOf(int n) {
    return _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(n));
  }
};

}  // namespace cinch::host
