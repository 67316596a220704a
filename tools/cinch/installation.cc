#include "tools/cinch/installation.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "common/param.h"

namespace cinch {
namespace {

namespace fs = std::filesystem;

// Where the libraries lie, seen from the program: a build tree, and an installation.
constexpr const char* kFolders[] = {"../lib", "../" CINCH_INSTALL_LIBDIR};

}  // namespace

std::string findLibrary(const char* name) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const char* folder : kFolders) {
    const fs::path path = (program.parent_path() / folder / name).lexically_normal();
    if (fs::exists(path, error)) return path.string();
  }
  return {};
}

std::vector<std::string> splitList(std::string_view list, std::string_view separators) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const size_t end = std::min(list.find_first_of(separators), list.size());
    if (end > 0) parts.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

std::string findProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* folders = environmentVariable("PATH");
  for (const std::string& folder : splitList(folders == nullptr ? "" : folders, ":")) {
    const std::string path = folder + "/" + name;
    std::error_code error;
    if (access(path.c_str(), X_OK) == 0 && !fs::is_directory(path, error)) return path;
  }
  return {};
}

}  // namespace cinch
