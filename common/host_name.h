// What this host is called.
#pragma once

#include <string>

namespace cinch {

// As the kernel has it, with the domain if that is part of it; "unknown" where it does not say.
std::string fullHostName();

// Up to the first dot.
std::string hostName();

}  // namespace cinch
