#include "tools/cinch/doctor/loader.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/param.h"
#include "interpose/real/loader_cache.h"
#include "tools/cinch/installation.h"

namespace cinch::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCache = "/etc/ld.so.cache";
constexpr const char* kSystemFolders[] = {"/lib64", "/usr/lib64", "/lib", "/usr/lib"};

void addIfThere(const fs::path& path, std::vector<std::string>& files) {
  std::error_code error;
  const std::string real = fs::canonical(path, error).string();
  if (!error && std::find(files.begin(), files.end(), real) == files.end()) files.push_back(real);
}

std::vector<std::string> fromCache(const std::string& name) {
  std::ifstream file(kCache, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  return findInLoaderCache(bytes, name);
}

}  // namespace

std::vector<std::string> findShared(const std::string& name,
                                    const std::vector<std::string>& first) {
  std::vector<std::string> files;
  if (name.find('/') != std::string::npos) {
    addIfThere(name, files);
    return files;
  }
  const char* list = environmentVariable("LD_LIBRARY_PATH");
  for (const std::string& folder : first) addIfThere(fs::path(folder) / name, files);
  for (const std::string& folder : splitList(list == nullptr ? "" : list, ":;"))
    addIfThere(fs::path(folder) / name, files);
  for (const std::string& path : fromCache(name)) addIfThere(path, files);
  for (const char* folder : kSystemFolders) addIfThere(fs::path(folder) / name, files);
  return files;
}

}  // namespace cinch::doctor
