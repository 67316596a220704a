#include "tools/cinch/codec_option.h"

#include <fmt/core.h>

#include "common/codec_names.h"

namespace cinch {

const codec::CodecInfo* codecOption(std::string name) {
  if (const char* const successor = successorOfCodec(name)) {
    fmt::print(stderr, "cinch: warning: {}\n", retiredCodecText(name));
    name = successor;
  }
  const codec::CodecInfo* const found = codec::findCodec(name);
  return found != nullptr && codec::isForCalls(*found) ? found : nullptr;
}

}  // namespace cinch
