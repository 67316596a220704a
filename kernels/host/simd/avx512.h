// What the vector code of this folder needs of AVX-512 F, BW, VL and DQ.
//
// Include only where these instructions are switched on for everything that follows (avx512.cc).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace cinch::host {

struct Avx512 {
  using Floats = __m512;
  static constexpr uint32_t kLanes = 16;

  static Floats broadcast(float value) { return _mm512_set1_ps(value); }
  static Floats load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(Floats values, float* to) { _mm512_storeu_ps(to, values); }

  // The second where either is NaN, as in a > b ? a : b.
  static Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  static Floats smaller(Floats a, Floats b) { return _mm512_min_ps(a, b); }
  static float largest(Floats values) { return _mm512_reduce_max_ps(values); }
  static float smallest(Floats values) { return _mm512_reduce_min_ps(values); }
  static Floats magnitude(Floats values) { return _mm512_abs_ps(values); }

  // Floats without a sign are in the order of their bits, which more units of a CPU can compare. A
  // NaN is largest.
  static Floats largerMagnitude(Floats a, Floats b) {
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  // Of numbers, cut to [0, top].
  static Floats clampFromZero(Floats values, float top) {
    const __m512i atLeast = _mm512_max_epi32(_mm512_castps_si512(values), _mm512_setzero_si512());
    return _mm512_castsi512_ps(_mm512_min_epi32(atLeast, _mm512_castps_si512(broadcast(top))));
  }

  static bool areFinite(Floats values) { return nonFinite(values) == 0; }
  static Floats zeroWhereNotFinite(Floats values) {
    return _mm512_maskz_mov_ps(_knot_mask16(nonFinite(values)), values);
  }

  // Changes the sign where a bit is set.
  static Floats withSigns(Floats values, uint32_t signs) {
    return _mm512_mask_xor_ps(values, static_cast<__mmask16>(signs), values, broadcast(-0.0f));
  }
  // At all distances within.
  static Floats butterflies(Floats v) {
    v = butterfly(v, _mm512_permute_ps(v, 0b10110001), 0xaaaa);
    v = butterfly(v, _mm512_permute_ps(v, 0b01001110), 0xcccc);
    v = butterfly(v, _mm512_shuffle_f32x4(v, v, 0b10110001), 0xf0f0);
    return butterfly(v, _mm512_shuffle_f32x4(v, v, 0b01001110), 0xff00);
  }

  // Codes on their way into planes: four runs, a byte each.
  using CodeBytes = __m512i;

  // The low bytes of the bits of floats.
  static CodeBytes lowBytes(Floats a, Floats b, Floats c, Floats d) {
    const __m512i pairs = _mm512_packus_epi16(lowHalves(a, b), lowHalves(c, d));
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), pairs);
  }
  // `width` bits of each, from bit `shift` on.
  template <uint32_t shift, uint32_t width>
  static CodeBytes bitsOf(CodeBytes codes) {
    return _mm512_and_si512(_mm512_srli_epi16(codes, shift), _mm512_set1_epi8((1 << width) - 1));
  }
  // Stores 8 * width bytes: a plane of `width` bits of codes that have no others.
  template <uint32_t width>
  static void storePlane(CodeBytes codes, uint8_t* to) {
    if constexpr (width == 8) {
      _mm512_storeu_si512(to, codes);
    } else if constexpr (width == 1) {
      const uint64_t plane = _mm512_test_epi8_mask(codes, codes);
      std::memcpy(to, &plane, sizeof plane);
    } else {
      const __m512i pairs = _mm512_maddubs_epi16(codes, _mm512_set1_epi16(1 | 1 << (8 + width)));
      if constexpr (width == 4) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi16_epi8(pairs));
      } else {
        const __m512i quads = _mm512_madd_epi16(pairs, _mm512_set1_epi32(1 | 16 << 16));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(quads));
      }
    }
  }

  // Codes on their way out of planes, one for each float.
  using Codes = __m512i;

  // Those of a plane from a byte on. Other bits of the plane may follow above those of the code.
  template <uint32_t width>
  static Codes fromPlane(const uint8_t* from) {
    if constexpr (width == 8) {
      return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    } else if constexpr (width == 4) {
      const __m512i words = _mm512_permutexvar_epi32(
          _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
          _mm512_castsi128_si512(_mm_loadu_si64(from)));
      return _mm512_srlv_epi32(
          words, _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28));
    } else {
      std::conditional_t<width == 2, uint32_t, uint16_t> word;
      std::memcpy(&word, from, sizeof word);
      return _mm512_srlv_epi32(_mm512_set1_epi32(static_cast<int>(word)), multiplesOf(width));
    }
  }
  template <uint32_t width>
  static Codes lowBits(Codes codes) {
    return _mm512_and_si512(codes, _mm512_set1_epi32((1 << width) - 1));
  }
  template <uint32_t shift>
  static Codes withHighBits(Codes low, Codes high) {
    return _mm512_or_si512(low, _mm512_slli_epi32(high, shift));
  }
  static Floats toFloats(Codes codes) { return _mm512_cvtepi32_ps(codes); }

  // Values of 16 codes.
  struct Table {
    __m512 values;
  };
  static Table loadTable(const float* values) { return {_mm512_loadu_ps(values)}; }
  // By the low four bits of the codes.
  static Floats lookUp(Table table, Codes codes) {
    return _mm512_permutexvar_ps(codes, table.values);
  }

 private:
  // `upper`: the lanes of second values.
  static Floats butterfly(Floats values, Floats others, __mmask16 upper) {
    return _mm512_mask_sub_ps(others + values, upper, others, values);
  }

  static __mmask16 nonFinite(Floats values) {
    constexpr int kNansAndInfinities = 0x99;
    return _mm512_fpclass_ps_mask(values, kNansAndInfinities);
  }

  // The low 16 bits of each.
  static __m512i lowHalves(Floats a, Floats b) {
    alignas(64) static constexpr uint16_t kEven[32] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20,
                                                       22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42,
                                                       44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    return _mm512_permutex2var_epi16(_mm512_castps_si512(a), _mm512_load_si512(kEven),
                                     _mm512_castps_si512(b));
  }

  static __m512i multiplesOf(int n) {
    return _mm512_mullo_epi32(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        _mm512_set1_epi32(n));
  }
};

}  // namespace cinch::host
