#include "interpose/comm/caller.h"

#include <sys/prctl.h>

#include <atomic>
#include <string_view>

namespace cinch {
namespace {

// torch/csrc/autograd/engine.cpp (1.13 to 2.15) calls the threads of its devices so before they run
// anything: "pt_autograd_0".
constexpr std::string_view kAutogradThread = "pt_autograd_";

std::atomic<bool> hasReduced{false};

Caller readCaller() {
  char name[16] = {};  // as long as Linux's names are
  if (prctl(PR_GET_NAME, name) != 0) return Caller::other;
  return std::string_view(name).starts_with(kAutogradThread) ? Caller::autograd : Caller::other;
}

}  // namespace

Caller currentCaller() {
  static thread_local const Caller caller = readCaller();
  return caller;
}

void noteAutogradReduction() {
  if (!hasReduced.load(std::memory_order_relaxed)) hasReduced.store(true);
}

bool reducesFromAutograd() {
  return hasReduced.load();
}

}  // namespace cinch
