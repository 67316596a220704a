#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "interpose/real/nccl_content.h"
#include "kernels/device_table.h"
#include "tools/cinch/bench/library.h"
#include "tools/cinch/doctor/child.h"
#include "tools/cinch/doctor/gather.h"
#include "tools/cinch/doctor/loader.h"
#include "tools/cinch/installation.h"

namespace cinch::doctor {
namespace {

namespace fs = std::filesystem;

constexpr auto kLoadLimit = std::chrono::seconds(30);
constexpr auto kPythonLimit = std::chrono::seconds(20);
constexpr auto kExchangeLimit = std::chrono::seconds(60);
constexpr const char* kNcclFile = "libnccl.so.2";
constexpr std::string_view kCudaTable = "cuda ";

// In a child: loads it and prints what its table is called, or what is wrong.
int tryLibrary(const std::string& path, bool isCodec) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fmt::print("{}", dlerror()), fflush(stdout), 1;
  if (!isCodec) return 0;
  const auto* table = static_cast<const DeviceTable*>(dlsym(library, kDeviceTableSymbol));
  const bool fits = table != nullptr && table->version == kDeviceTableVersion &&
                    table->size == sizeof(DeviceTable);
  fmt::print("{}", fits ? table->name : "it is of another release of Cinch");
  fflush(stdout);
  return fits ? 0 : 1;
}

int majorIn(const std::string& tableName) {
  int major = 0;
  if (tableName.starts_with(kCudaTable))
    std::from_chars(tableName.data() + kCudaTable.size(), tableName.data() + tableName.size(),
                    major);
  return major;
}

LibraryFact libraryOf(const char* name, int& cudaMajor) {
  LibraryFact fact = {name, findLibrary(name), ""};
  if (fact.path.empty()) return fact;
  const std::string_view title = name;
  const bool isCodec = title == kHostCodecLibrary || title == kCudaCodecLibrary;
  const ChildOutcome child = runApart([&] { return tryLibrary(fact.path, isCodec); }, kLoadLimit);
  if (!child.hasEnded)
    fact.fault = "loading it comes to no end";
  else if (child.status > 128)
    fact.fault = fmt::format("loading it crashes (signal {})", child.status - 128);
  else if (child.status != 0)
    fact.fault = child.output;
  else
    cudaMajor = std::max(cudaMajor, majorIn(child.output));
  return fact;
}

// Folders that Python imports from.
std::vector<std::string> pythonFolders(const Variables& variables, const std::string& python) {
  std::vector<std::string> environment;
  for (const char* name : {"PATH", "HOME", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"})
    if (!variables[name].empty()) environment.push_back(std::string(name) + "=" + variables[name]);
  const ChildOutcome child = runProgram({python, "-c", "import sys; print('\\n'.join(sys.path))"},
                                        environment, kPythonLimit);
  return child.hasEnded && child.status == 0 ? splitList(child.output, "\n")
                                             : std::vector<std::string>();
}

void addNccl(const std::string& path, std::vector<NcclFact>& found) {
  const auto isThis = [&](const NcclFact& other) { return other.path == path; };
  const auto content = readNcclContent(path);
  if (!content.ok() || !content.value().exportsNccl || content.value().isCinch ||
      std::any_of(found.begin(), found.end(), isThis))
    return;
  found.push_back({path, content.value().version});
}

std::string fileOf(const std::string& value, const char* pattern) {
  if (value.find('/') != std::string::npos || value.find(".so") != std::string::npos) return value;
  return fmt::format(fmt::runtime(pattern), value);
}

std::string lastLineOf(const std::string& text) {
  const auto lines = splitList(text, "\n");
  return lines.empty() ? "without a word" : lines.back();
}

}  // namespace

std::vector<LibraryFact> gatherLibraries(int& cudaMajor) {
  cudaMajor = 0;
  std::vector<LibraryFact> facts;
  for (const char* name :
       {kPreloadLibrary, kHostCodecLibrary, kCudaCodecLibrary, kNetLibrary, kTunerLibrary})
    facts.push_back(libraryOf(name, cudaMajor));
  return facts;
}

std::vector<NcclFact> gatherNccl(const Variables& variables, const ProgramFacts& program) {
  std::vector<NcclFact> found;
  if (const std::string named = variables["CINCH_NCCL_LIB"]; !named.empty()) addNccl(named, found);
  // Of a program that is linked to NCCL, its own RPATH has decided already.
  for (const std::string& library : program.libraries)
    if (fs::path(library).filename().string().starts_with("libnccl.so")) addNccl(library, found);
  const std::string python = program.path.empty() ? findProgram("python3") : program.python;
  if (!python.empty()) {
    for (const std::string& folder : pythonFolders(variables, python))
      addNccl(folder + "/nvidia/nccl/lib/" + kNcclFile, found);
  }
  for (const std::string& path : findShared(kNcclFile)) addNccl(path, found);
  return found;
}

std::vector<PluginFact> gatherPlugins(const Variables& variables) {
  struct Kind {
    const char* variable;
    const char* pattern;
    const char* fallback;
  };
  constexpr Kind kKinds[] = {
      {"NCCL_NET_PLUGIN", "libnccl-net-{}.so", "libnccl-net.so"},
      {"NCCL_TUNER_PLUGIN", "libnccl-tuner-{}.so", "libnccl-tuner.so"},
      {"NCCL_PROFILER_PLUGIN", "libnccl-profiler-{}.so", "libnccl-profiler.so"}};
  std::vector<PluginFact> plugins;
  for (const Kind& kind : kKinds) {
    PluginFact plugin = {kind.variable, variables[kind.variable], "", false};
    const bool isNamed = !plugin.value.empty();
    const auto files = findShared(isNamed ? fileOf(plugin.value, kind.pattern) : kind.fallback);
    if (!files.empty()) plugin.path = files.front();
    plugin.isOurs = plugin.value == "cinch";
    if (isNamed || !files.empty()) plugins.push_back(plugin);
  }
  return plugins;
}

ExchangeFacts gatherExchange(const Variables& variables) {
  ExchangeFacts facts;
  facts.hasEmulator = !bench::emulatorPath().empty();
  if (!facts.hasEmulator) return facts;
  std::error_code error;
  const std::string cinch = fs::read_symlink("/proc/self/exe", error).string();
  // Nothing of the user's settings: those have checks of their own.
  const ChildOutcome child =
      runProgram({cinch, "run", "--", cinch, "bench", "all_reduce", "--emulator", "--ranks", "2",
                  "--hosts", "2", "-b", "64K", "-e", "64K", "-n", "3", "-w", "6"},
                 {"PATH=" + variables["PATH"], "NCCL_SOCKET_IFNAME=lo", "CINCH_SLOTS=signature",
                  "CINCH_CODEC=q8", "CINCH_WHEN=always"},
                 kExchangeLimit);
  facts.hasEnded = child.hasEnded;
  facts.status = child.status;
  facts.isCompressed = child.output.find("compressed:q8") != std::string::npos;
  facts.lastLine = lastLineOf(child.output);
  return facts;
}

}  // namespace cinch::doctor
