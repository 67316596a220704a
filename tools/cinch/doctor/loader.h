// Where the loader of this machine would find a library.
#pragma once

#include <string>
#include <vector>

namespace cinch::doctor {

// Existing files of that name, best first: in the folders of `first`, those of LD_LIBRARY_PATH,
// in ldconfig's list, and in the system's folders; each file once. A path stands for itself.
std::vector<std::string> findShared(const std::string& name,
                                    const std::vector<std::string>& first = {});

}  // namespace cinch::doctor
