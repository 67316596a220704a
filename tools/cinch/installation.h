// Files that belong to a job: Cinch's own libraries, and the program that a command's name means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cinch {

inline constexpr const char* kPreloadLibrary = "libcinch.so";
inline constexpr const char* kHostCodecLibrary = "libcinch-codec-host.so";
inline constexpr const char* kCudaCodecLibrary = "libcinch-codec-cuda.so";
inline constexpr const char* kNetLibrary = "libnccl-net-cinch.so";
inline constexpr const char* kTunerLibrary = "libnccl-tuner-cinch.so";

// Absolute path of one of Cinch's libraries; empty where it is not beside this program.
std::string findLibrary(const char* name);

// The file that a command's name stands for, by the folders of PATH; empty where there is none. A
// name with a slash is the file itself, whether it is there or not.
std::string findProgram(const std::string& name);

// The parts of a list as LD_PRELOAD and LD_LIBRARY_PATH have it, without empty ones.
std::vector<std::string> splitList(std::string_view list, std::string_view separators);

}  // namespace cinch
