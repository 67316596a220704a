// Which of the job's processes this is.
#pragma once

#include <string>

namespace cinch {

// "process5.", or "" where the launcher has numbered none.
std::string processPrefix();

}  // namespace cinch
