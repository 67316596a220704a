// The codec that an option of the command line names.
#pragma once

#include <string>

#include "kernels/codec/registry.h"

namespace cinch {

// Null where calls can have no such codec. Old names are taken, with a warning on stderr.
const codec::CodecInfo* codecOption(const std::string& name);

}  // namespace cinch
