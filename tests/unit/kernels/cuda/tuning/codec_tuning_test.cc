// The printable table of what a launch takes from the GPU it runs on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>

#include "kernels/cuda/tuning/codec_tuning.h"

namespace cinch::cuda {
namespace {

TEST(CodecTuning, LeavesSomeOfEveryDevice) {
  for (const uint32_t capability : {75u, 80u, 86u, 89u, 90u, 100u, 103u, 120u, 121u}) {
    const CodecTuning tuning = codecTuning(capability);
    EXPECT_LE(tuning.fromCapability, capability);
    EXPECT_LT(gridLimit(tuning, 132), uint64_t{132} * tuning.ctasPerSm);
    EXPECT_GE(gridLimit(tuning, 1), 1u);
  }
}

TEST(CodecTuning, PrintsARowForEveryEntry) {
  char text[2048] = {};
  FILE* const file = fmemopen(text, sizeof text - 1, "w");
  ASSERT_NE(file, nullptr);
  printCodecTunings(file);
  fclose(file);
  const std::string printed = text;
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'),
            static_cast<ptrdiff_t>(std::size(kCodecTunings)) + 1);
  EXPECT_NE(printed.find("120"), std::string::npos);
}

}  // namespace
}  // namespace cinch::cuda
