#include "tools/cinch/codec_option.h"

#include <fmt/core.h>

#include "common/codec_names.h"

namespace cinch {

const codec::CodecInfo* codecOption(const std::string& name) {
  const codec::CodecInfo* found = codec::findCodec(name);
  if (const char* const successor = found == nullptr ? successorOfCodec(name) : nullptr) {
    fmt::print(stderr, "cinch: warning: {}\n", retiredCodecText(name));
    found = codec::findCodec(std::string_view(successor));
  }
  return found != nullptr && codec::isForCalls(*found) ? found : nullptr;
}

}  // namespace cinch
