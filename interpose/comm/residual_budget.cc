#include "interpose/comm/residual_budget.h"

#include <atomic>

#include "common/param.h"
#include "interpose/comm/buffer.h"

namespace cinch {
namespace {

// What is free once a program trains is what it does not use, but for what its allocator is still
// going to ask for: the first evaluation, a longer sequence.
constexpr uint64_t kShareOfFree = 5;

std::atomic<uint64_t> heldBytes{0};

Result<uint64_t> mostBytes(const DeviceTable& device) {
  if (const uint64_t wanted = processParams().params.residualMemory; wanted > 0) return wanted;
  size_t nFree = 0, nTotal = 0;
  CINCH_TRY_DEVICE(device, device.memoryInfo(&nFree, &nTotal), "cannot ask for free memory");
  return (nFree + heldBytes.load()) / kShareOfFree;
}

}  // namespace

Result<void> reserveForResiduals(const DeviceTable& device, uint64_t nBytes) {
  const auto most = mostBytes(device);
  CINCH_TRY(most);
  const uint64_t before = heldBytes.fetch_add(nBytes);
  if (before + nBytes <= most.value()) return {};
  heldBytes.fetch_sub(nBytes);
  return errorf(Status::systemError,
                "no room within CINCH_RESIDUAL_MEMORY for %llu bytes of residuals beside %llu "
                "others (at most %llu); raise it, or use CINCH_RESIDUAL=int8",
                static_cast<unsigned long long>(nBytes), static_cast<unsigned long long>(before),
                static_cast<unsigned long long>(most.value()));
}

void returnToResidualBudget(uint64_t nBytes) {
  heldBytes.fetch_sub(nBytes);
}

uint64_t bytesOfResiduals() {
  return heldBytes.load();
}

}  // namespace cinch
