#include "interpose/comm/residual_budget.h"

#include <map>
#include <mutex>

#include "common/param.h"
#include "interpose/comm/buffer.h"

namespace cinch {
namespace {

// What is free once a program trains is what it does not use, but for what its allocator is still
// going to ask for: the first evaluation, a longer sequence.
constexpr uint64_t kShareOfFree = 5;

struct Budget {
  std::mutex mutex;
  std::map<int, uint64_t> held;  // bytes, by device
};

// Made with the first use, and never destroyed: communicators may end after static destructors.
Budget& budget() {
  static auto& budget = *new Budget;
  return budget;
}

int currentOf(const DeviceTable& device) {
  int current = 0;
  return device.getDevice(&current) == 0 ? current : 0;
}

Result<uint64_t> mostBytes(const DeviceTable& device, uint64_t held) {
  if (const uint64_t wanted = processParams().params.residualMemory; wanted > 0) return wanted;
  size_t nFree = 0, nTotal = 0;
  CINCH_TRY_DEVICE(device, device.memoryInfo(&nFree, &nTotal), "cannot ask for free memory");
  return (nFree + held) / kShareOfFree;
}

}  // namespace

Result<void> reserveForResiduals(const DeviceTable& device, uint64_t nBytes) {
  Budget& all = budget();
  const std::lock_guard lock(all.mutex);
  uint64_t& held = all.held[currentOf(device)];
  const auto most = mostBytes(device, held);
  CINCH_TRY(most);
  if (held + nBytes > most.value())
    return errorf(Status::systemError,
                  "no room within CINCH_RESIDUAL_MEMORY for %llu bytes of residuals beside %llu "
                  "others (at most %llu); raise it, or use CINCH_RESIDUAL=int8",
                  static_cast<unsigned long long>(nBytes), static_cast<unsigned long long>(held),
                  static_cast<unsigned long long>(most.value()));
  held += nBytes;
  return {};
}

void countForResiduals(const DeviceTable& device, uint64_t nBytes) {
  Budget& all = budget();
  const std::lock_guard lock(all.mutex);
  all.held[currentOf(device)] += nBytes;
}

void returnToResidualBudget(int cudaDevice, uint64_t nBytes) {
  Budget& all = budget();
  const std::lock_guard lock(all.mutex);
  all.held[cudaDevice] -= nBytes;
}

uint64_t bytesOfResiduals(int cudaDevice) {
  Budget& all = budget();
  const std::lock_guard lock(all.mutex);
  return all.held[cudaDevice];
}

}  // namespace cinch
