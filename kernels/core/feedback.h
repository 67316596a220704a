// Error feedback: what coding leaves out of a value is kept, and a share of it added to the next.
#pragma once

#include "kernels/element/element_traits.h"

namespace cinch::core {

// `gain` is the share of the residual that is added, `decay` what is left of the residual after a
// step: (a, 1) is low-gain feedback, which drops nothing; (1, 1) full feedback; (b, b) feedback
// with decay b.
struct FeedbackRule {
  float gain;
  float decay = 1.0f;

  // What is coded instead of `value`.
  CINCH_HD constexpr float compensate(float value, float residual) const {
    return value + gain * residual;
  }

  // The residual after `value` was coded as `decoded`. Never infinite or NaN: it would stay so.
  CINCH_HD constexpr float next(float residual, float value, float decoded) const {
    const float sum = decay * residual + (value - decoded);
    return isFinite(sum) ? sum : 0.0f;
  }
};

}  // namespace cinch::core
