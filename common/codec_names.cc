#include "common/codec_names.h"

#include <array>

#include "common/param_kinds.h"

namespace cinch {
namespace {

struct Retired {
  const char* name;
  const char* successor;
};

// A codec with other blocks is the one of the same name with blocks of 128, which rounds as it did.
// What was clipped up to four bits has become a rotated codec of as many bytes, the rest of that
// family the min-max codec of as many bits; a 4-bit float is the codec of four bits whose error was
// nearest to its own (docs/decisions/022-fewer-codecs.md).
constexpr Retired kRetired[] = {{"c2", "h2"}, {"c3", "h3"}, {"c4", "h4"},    {"c5", "q5"},
                                {"c6", "q6"}, {"c8", "q8"}, {"mxfp4", "q4"}, {"nvfp4", "h4"}};

// Those that had blocks of 64 and 256 values besides; c2 to c8 had, too.
constexpr const char* kResized = "q2|q3|q4|q5|q6|q8|sign|fp8";
constexpr std::array kResizedNames = {"q2", "q3", "q4", "q5", "q6", "q8", "sign", "fp8"};

const char* successorOfFamily(std::string_view family) {
  for (const Retired& retired : kRetired)
    if (parseChoice(family, retired.name)) return retired.successor;
  return nullptr;
}

}  // namespace

const char* successorOfCodec(std::string_view name) {
  if (!name.ends_with("-64") && !name.ends_with("-256")) return successorOfFamily(name);
  const std::string_view family = name.substr(0, name.rfind('-'));
  if (const std::optional<int> index = parseChoice(family, kResized))
    return kResizedNames[static_cast<size_t>(*index)];
  return family.size() == 2 ? successorOfFamily(family) : nullptr;
}

std::string retiredCodecText(std::string_view name) {
  return "the codec " + std::string(name) + " is no more; using " + successorOfCodec(name) +
         " instead. The next release will know the new name only";
}

}  // namespace cinch
