// How NCCL finds the library of a plugin: the names that a user gives, and what is opened for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace cinch::emulator {

// The libraries that NCCL_NET_PLUGIN (null where unset) lists, in order. NCCL's limits hold: 14
// names of at most 254 characters, others are ignored.
std::vector<std::string> listedPlugins(const char* value);

// What is tried for one name, in order: the name as it is; then libnccl-net-<name>.so, unless it is
// a path or looks like a library itself.
std::vector<std::string> candidateFiles(const std::string& name);

// An open library; closed at the end.
class PluginLibrary {
 public:
  // Null where no candidate can be opened; an INFO line says why. STATIC_PLUGIN, or a beginning of
  // it, is the program itself with all that is loaded globally.
  static std::unique_ptr<PluginLibrary> open(const std::string& name);
  ~PluginLibrary();

  // Null where the library has no such symbol.
  const void* symbol(const char* name) const;
  // Of the file, as the loader knows it.
  const std::string& path() const { return path_; }

 private:
  explicit PluginLibrary(void* handle);

  void* const handle_;
  std::string path_;
};

}  // namespace cinch::emulator
