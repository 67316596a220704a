#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "common/param.h"
#include "common/result.h"
#include "interpose/real/nccl_content.h"
#include "tools/cinch/commands.h"
#include "tools/cinch/installation.h"

namespace cinch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPreload = "LD_PRELOAD";
constexpr const char* kLibraryPath = "LD_LIBRARY_PATH";

// A plugin that NCCL loads where a variable names it.
struct Plugin {
  const char* option;
  const char* file;
  const char* variable;   // gets the value "cinch"
  const char* exclusive;  // another variable with which the user makes the same choice, or null
};

constexpr Plugin kNetPlugin = {"--net", kNetLibrary, "NCCL_NET_PLUGIN", "NCCL_NET"};
constexpr Plugin kTunerPlugin = {"--tuner", kTunerLibrary, "NCCL_TUNER_PLUGIN", nullptr};

// The value of a variable; empty where unset.
std::string_view valueOf(const char* name) {
  const char* value = environmentVariable(name);
  return value == nullptr ? "" : value;
}

bool isLibraryFile(std::string_view path) {
  std::error_code error;
  return fs::path(path).filename() == kPreloadLibrary && fs::exists(path, error);
}

// True where the colon- or space-separated list `preloads` loads Cinch already.
bool loadsCinch(std::string_view preloads) {
  for (const std::string& path : splitList(preloads, ": "))
    if (isLibraryFile(path)) return true;
  return false;
}

// Puts Cinch in front of what the user preloads.
Result<void> setPreload() {
  const std::string library = findLibrary(kPreloadLibrary);
  if (library.empty()) {
    return errorf(Status::systemError, "%s is not where this program looks, in ../lib beside it",
                  kPreloadLibrary);
  }
  if (library.find_first_of(": ") != std::string::npos) {
    return errorf(Status::systemError,
                  "LD_PRELOAD cannot hold a path with a space or a colon: move %s",
                  library.c_str());
  }
  const std::string_view existing = valueOf(kPreload);
  if (loadsCinch(existing)) return {};
  const std::string preloads = existing.empty() ? library : library + ":" + std::string(existing);
  setenv(kPreload, preloads.c_str(), 1);
  return {};
}

bool loaderFinds(const char* file) {
  void* handle = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

// NCCL has the loader look for a plugin. Where an installation is not on its path, that becomes the
// last folder of it. A system's own folder must not: it would come before what programs bring
// along.
void letLoaderFind(const char* file, const std::string& path) {
  if (loaderFinds(file)) return;
  const std::string folder = fs::path(path).parent_path().string();
  const std::string existing(valueOf(kLibraryPath));
  if ((":" + existing).ends_with(":" + folder)) return;  // for another plugin
  setenv(kLibraryPath, existing.empty() ? folder.c_str() : (existing + ":" + folder).c_str(), 1);
}

// Names Cinch's plugin to NCCL, unless the user names another.
Result<void> setPlugin(const Plugin& plugin) {
  for (const char* name : {plugin.variable, plugin.exclusive}) {
    const std::string_view value = name == nullptr ? "" : valueOf(name);
    if (value.empty() || (name == plugin.variable && value == "cinch")) continue;
    return errorf(Status::invalidUsage,
                  "%s=%s already makes this choice: unset it, or leave out %s", name, value.data(),
                  plugin.option);
  }
  const std::string path = findLibrary(plugin.file);
  if (path.empty()) {
    return errorf(Status::invalidUsage, "%s: %s is not in this build; leave the option out",
                  plugin.option, plugin.file);
  }
  letLoaderFind(plugin.file, path);
  setenv(plugin.variable, "cinch", 1);
  return {};
}

Result<void> prepareEnvironment(const RunOptions& options) {
  if (options.net) CINCH_TRY(setPlugin(kNetPlugin));
  if (options.tuner) CINCH_TRY(setPlugin(kTunerPlugin));
  return setPreload();
}

// A preloaded library never runs in a program that holds its own NCCL, so nobody else can say it.
void noteHiddenNccl(const std::string& command) {
  const std::string path = findProgram(command);
  const Result<NcclContent> content = readNcclContent(path);
  if (content.ok() && content.value().hidesNccl())
    fmt::print(stderr, "cinch run: {}\n", hiddenNcclText(path, content.value()));
}

// Returns only where the command cannot be started.
int execute(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));  // execvp does not write to them
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  fmt::print(stderr, "cinch run: cannot start {}: {}\n", command[0],
             error == ENOENT ? "command not found" : strerror(error));
  return error == ENOENT ? kExitNotFound : kExitNotExecutable;
}

}  // namespace

int runCommand(const RunOptions& options) {
  if (options.command.empty()) {
    fmt::print(stderr,
               "cinch run: no command given\n"
               "Usage: cinch run [--net] [--tuner] -- COMMAND [ARGUMENTS...]\n");
    return kExitUsage;
  }
  printWarnings();
  if (const Result<void> prepared = prepareEnvironment(options); !prepared) {
    const Error& error = prepared.error();
    fmt::print(stderr, "cinch run: {}\n", error.message);
    return error.status == Status::invalidUsage ? kExitUsage : kExitCannotRun;
  }
  noteHiddenNccl(options.command[0]);
  return execute(options.command);
}

}  // namespace cinch
