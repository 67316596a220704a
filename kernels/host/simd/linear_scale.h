// Summaries and scales of the uniform codecs, a vector of values at a time. The operations are
// those of the scalar functions, in their order.
#pragma once

#include "kernels/codec/uniform.h"

namespace cinch::host {

template <class Isa, class Summary>
class VectorSummary;

template <class Isa>
class VectorSummary<Isa, core::ValueRange> {
 public:
  explicit VectorSummary(typename Isa::Floats first)
      : low_(first), high_(first), magnitude_(Isa::magnitude(first)) {}
  void add(typename Isa::Floats values) {
    magnitude_ = Isa::largerMagnitude(magnitude_, Isa::magnitude(values));
    low_ = Isa::smaller(low_, values);
    high_ = Isa::larger(high_, values);
  }
  // A NaN may be missing in the range.
  bool isFinite() const { return Isa::areFinite(magnitude_); }
  // Of finite values.
  core::ValueRange result() const {
    return {core::orderedBits(Isa::smallest(low_)), core::orderedBits(Isa::largest(high_))};
  }

 private:
  typename Isa::Floats low_, high_, magnitude_;
};

// Codes as floats.
template <class Isa, class Scale>
class VectorScale;

template <class Isa, uint32_t bits>
class VectorScale<Isa, codec::UniformScale<bits>> {
  using Floats = typename Isa::Floats;

 public:
  static constexpr float kTopCode = codec::UniformScale<bits>::kTopCode;

  explicit VectorScale(const codec::UniformScale<bits>& scale) : scale_(scale) {}
  Floats position(Floats values) const { return (values - scale_.minimum) * scale_.inverse; }
  Floats decode(Floats codes) const { return scale_.minimum + codes * scale_.step; }

 private:
  codec::UniformScale<bits> scale_;
};

template <class Isa, class Scale>
concept IsLinear = requires(const Scale& scale) {
  VectorScale<Isa, Scale>(scale);
};

}  // namespace cinch::host
