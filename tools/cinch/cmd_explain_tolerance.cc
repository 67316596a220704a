#include <fmt/core.h>

#include "common/param.h"
#include "interpose/policy/policy.h"
#include "tools/cinch/codec_error.h"
#include "tools/cinch/codec_option.h"
#include "tools/cinch/commands.h"

namespace cinch {

int explainTolerance(const std::string& codec) {
  const codec::CodecInfo* info = codecOption(codec);
  if (info == nullptr) {
    fmt::print(stderr, "cinch: no codec is called {}; `cinch explain --codecs` lists them\n",
               codec);
    return kExitUsage;
  }
  const Params& params = processParams().params;
  const double gain = feedbackOf(params, info->format).gain;
  const bool dithers = info->dithers && params.rounding == RoundingChoice::stochastic;
  const StatedError stated = statedError(info->format, gain, dithers);
  fmt::print("{:.3e},{:.3e}\n", stated.value, stated.nmse);
  return kExitOk;
}

}  // namespace cinch
