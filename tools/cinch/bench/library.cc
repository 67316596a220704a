#include "tools/cinch/bench/library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <filesystem>
#include <stdexcept>

namespace cinch::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNccl = "libnccl.so.2";
// Where the emulator lies, seen from the program: a build tree, and an installation.
constexpr const char* kEmulators[] = {"../emulator", "../" CINCH_INSTALL_LIBDIR "/cinch/emulator"};
constexpr const char* kRuntimes[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so"};
constexpr const char* kEmulatorMarker = "cinchEmulatorMarker";

std::string loaderError() {
  const char* text = dlerror();
  return text == nullptr ? "unknown error" : text;
}

// Whether a driver of NVIDIA's is there, also behind WSL. Without one their libraries are of no
// use.
bool hasDriver() {
  std::error_code error;
  for (const char* path : {"/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg"})
    if (fs::exists(path, error)) return true;
  return false;
}

void* openNccl(std::string path) {
  if (path.empty() && !hasDriver()) path = emulatorPath();
  const std::string name = path.empty() ? kNccl : path;
  if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) return handle;
  throw std::runtime_error(fmt::format(
      "cannot load NCCL: {}; install it, name its folder in LD_LIBRARY_PATH or its path "
      "with --nccl, or use --emulator",
      loaderError()));
}

// The emulator's own runtime is in the process already, under the first name.
void* openRuntime() {
  for (const char* name : kRuntimes)
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return handle;
  throw std::runtime_error(
      fmt::format("cannot load the CUDA runtime ({} or {}): {}; name its folder in LD_LIBRARY_PATH",
                  kRuntimes[0], kRuntimes[1], loaderError()));
}

template <class Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr)
    throw std::runtime_error(fmt::format("the library lacks {}: too old? {}", name, loaderError()));
}

std::string objectOf(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace

std::string emulatorPath() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const char* folder : kEmulators) {
    const fs::path path = (program.parent_path() / folder / kNccl).lexically_normal();
    if (fs::exists(path, error)) return path.string();
  }
  return {};
}

Library loadLibrary(const std::string& path) {
  Library library;
  void* nccl = openNccl(path);
  void* runtime = openRuntime();
#define CINCH_BENCH_CUDA(name) find(runtime, #name, library.name);
#define CINCH_BENCH_NCCL(name) find(nccl, #name, library.name);
#include "tools/cinch/bench/library_functions.def"
#undef CINCH_BENCH_CUDA
#undef CINCH_BENCH_NCCL
  library.check(library.ncclGetVersion(&library.version), "ncclGetVersion");
  library.path = objectOf(reinterpret_cast<const void*>(library.ncclGetVersion));
  library.emulator = dlsym(nccl, kEmulatorMarker) != nullptr;
  const fs::path entry = objectOf(reinterpret_cast<const void*>(library.ncclAllReduce));
  library.cinch = entry.filename().string().starts_with("libcinch");
  return library;
}

std::string Library::versionText() const {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void Library::check(cudaError_t error, const char* call) const {
  if (error != cudaSuccess)
    throw std::runtime_error(fmt::format("{} failed: {}", call, cudaGetErrorString(error)));
}

void Library::check(ncclResult_t result, const char* call) const {
  if (result != ncclSuccess)
    throw std::runtime_error(fmt::format("{} failed: {} ({})", call, ncclGetErrorString(result),
                                         ncclGetLastError(nullptr)));
}

}  // namespace cinch::bench
