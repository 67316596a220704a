#include "emulator/cudart/kernel_loading.h"

#include <mutex>
#include <set>
#include <shared_mutex>
#include <utility>

#include "emulator/cudart/device.h"
#include "emulator/cudart/stream.h"
#include "emulator/environment.h"

namespace cinch::cudart {
namespace {

constexpr int kOldestCapability = 75;

// Which kernels have been loaded, by device. Never destroyed, since workers may run while the
// process exits.
class Loaded {
 public:
  bool has(int device, const void* kernel) const {
    const std::shared_lock lock(mutex_);
    return kernels_.contains({device, kernel});
  }
  void add(int device, const void* kernel) {
    const std::unique_lock lock(mutex_);
    kernels_.emplace(device, kernel);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::set<std::pair<int, const void*>> kernels_;
};

Loaded& loaded() {
  static Loaded* const all = new Loaded;
  return *all;
}

}  // namespace

cudaError_t loadKernel(const void* kernel) {
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  const int device = useDevice();
  if (loaded().has(device, kernel)) return cudaSuccess;
  if (emulator::capability() < kOldestCapability) return cudaErrorNoKernelImageForDevice;
  if (emulator::loadsLazily()) synchronizeDevice();
  loaded().add(device, kernel);
  return cudaSuccess;
}

}  // namespace cinch::cudart
