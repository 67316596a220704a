#include "emulator/nccl/plugin_library.h"

#include <dlfcn.h>
#include <link.h>
#include <strings.h>

#include "emulator/nccl/debug.h"

namespace cinch::emulator {
namespace {

constexpr size_t kMaxPlugins = 14;
constexpr size_t kMaxNameLength = 254;

bool isStatic(const std::string& name) {
  return !name.empty() && strncasecmp(name.c_str(), "STATIC_PLUGIN", name.size()) == 0;
}

bool looksLikeLibrary(const std::string& name) {
  return name.find('/') != std::string::npos || (name.starts_with("lib") && name.ends_with(".so"));
}

std::vector<std::string> splitAtCommas(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::vector<std::string> listedPlugins(const char* value) {
  if (value == nullptr) return {"libnccl-net.so"};
  logInfo("NCCL_NET_PLUGIN set by environment to %s", value);
  if (strcasecmp(value, "none") == 0) return {};
  std::vector<std::string> names;
  for (const std::string& name : splitAtCommas(value)) {
    if (names.size() == kMaxPlugins) {
      logInfo("NCCL_NET_PLUGIN: more than %zu plugins, %s and what follows is ignored", kMaxPlugins,
              name.c_str());
      break;
    }
    if (name.size() <= kMaxNameLength) {
      names.push_back(name);
    } else {
      logInfo("NCCL_NET_PLUGIN: a name of %zu characters is ignored: %.40s...", name.size(),
              name.c_str());
    }
  }
  return names;
}

std::vector<std::string> candidateFiles(const std::string& name) {
  if (looksLikeLibrary(name)) return {name};
  return {name, "libnccl-net-" + name + ".so"};
}

std::unique_ptr<PluginLibrary> PluginLibrary::open(const std::string& name) {
  for (const std::string& file : candidateFiles(name)) {
    void* handle = dlopen(isStatic(file) ? nullptr : file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return std::unique_ptr<PluginLibrary>(new PluginLibrary(handle));
    logInfo("NET/Plugin: %s", dlerror());
  }
  return nullptr;
}

PluginLibrary::PluginLibrary(void* handle) : handle_(handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) path_ = map->l_name;
}

PluginLibrary::~PluginLibrary() {
  dlclose(handle_);
}

const void* PluginLibrary::symbol(const char* name) const {
  return dlsym(handle_, name);
}

}  // namespace cinch::emulator
