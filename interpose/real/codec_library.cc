#include "interpose/real/codec_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <mutex>
#include <string>

#include "common/log.h"

namespace cinch {
namespace {

// The folder of this very library.
std::string ownFolder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&ownFolder), &info) == 0) return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

// The codec library lies beside this one, or, beside a drop-in libnccl.so.2, one folder up.
std::string findLibrary(const char* name) {
  const std::string folder = ownFolder();
  const std::string above = folder + "../" + name;
  return access((folder + name).c_str(), F_OK) != 0 && access(above.c_str(), F_OK) == 0
             ? above
             : folder + name;
}

Result<const DeviceTable*> load(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return errorf(Status::systemError,
                  "cannot load the codec library, which is installed beside libcinch.so: %s",
                  dlerror());
  const auto* table = static_cast<const DeviceTable*>(dlsym(handle, kDeviceTableSymbol));
  if (table == nullptr || table->version != kDeviceTableVersion ||
      table->size != sizeof(DeviceTable))
    return errorf(Status::systemError, "%s is of another Cinch: reinstall both libraries",
                  path.c_str());
  if (const int error = table->initialise(); error != 0)
    return errorf(Status::cudaError, "%s cannot be used here: %s", path.c_str(),
                  table->errorName(error));
  CINCH_INFO("INIT", "codec library %s (%s)", path.c_str(), table->name);
  return table;
}

}  // namespace

Result<const DeviceTable*> loadCodecLibrary(bool emulator) {
  static std::mutex mutex;
  static const DeviceTable* tables[2] = {};
  const std::lock_guard lock(mutex);
  if (tables[emulator] != nullptr) return tables[emulator];
  auto loaded = load(findLibrary(emulator ? "libcinch-codec-host.so" : "libcinch-codec-cuda.so"));
  if (loaded.ok()) tables[emulator] = loaded.value();
  return loaded;
}

}  // namespace cinch
