// The way from the runtime to the driver: the functions of libcuda.so.1, and of profilers.

#include <dlfcn.h>

#include <string>

#include "emulator/cudart/api.h"
#include "emulator/include/cuda_profiler_api.h"

namespace cinch::cudart {
namespace {

// The emulator's own library, which lies beside this one; a machine may have NVIDIA's too. Null
// where it is not there.
void* openDriver() {
  static const char here = 0;
  Dl_info library;
  if (dladdr(&here, &library) == 0) return nullptr;
  const std::string path = library.dli_fname;
  return dlopen((path.substr(0, path.rfind('/') + 1) + "libcuda.so.1").c_str(),
                RTLD_NOW | RTLD_LOCAL);
}

// Where the library that holds `symbol` is loaded; null where it is in none.
const void* libraryOf(const void* symbol) {
  Dl_info library;
  return symbol != nullptr && dladdr(symbol, &library) != 0 ? library.dli_fbase : nullptr;
}

// dlsym() also finds what is in the libraries that the driver itself needs.
void* findOwn(void* driver, const std::string& name) {
  void* const symbol = dlsym(driver, name.c_str());
  return libraryOf(symbol) == libraryOf(dlsym(driver, "cuInit")) ? symbol : nullptr;
}

void* findInDriver(const std::string& name) {
  static void* const driver = openDriver();
  if (driver == nullptr) return nullptr;
  // Programs ask for a function without the ending that its newer forms have.
  void* const newer = findOwn(driver, name + "_v2");
  return newer != nullptr ? newer : findOwn(driver, name);
}

}  // namespace
}  // namespace cinch::cudart

using namespace cinch::cudart;

// Does not start the runtime: programs look functions up while they load, and may fork afterwards.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                             unsigned int version, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr || version == 0)
    return setError(cudaErrorInvalidValue);
  *function = findInDriver(symbol);
  if (status != nullptr)
    *status =
        *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// No profiler is attached, which these do not count as an error.
cudaError_t cudaProfilerStart() {
  return api([] { return cudaSuccess; });
}

cudaError_t cudaProfilerStop() {
  return api([] { return cudaSuccess; });
}
