#include "interpose/comm/caller.h"

#include <sys/prctl.h>

#include <atomic>
#include <string_view>

namespace cinch {
namespace {

// torch/csrc/autograd/engine.cpp (1.13 to 2.15) calls the threads of its devices so before they run
// anything: "pt_autograd_0".
constexpr std::string_view kAutogradThread = "pt_autograd_";

// Where the first reduction from such a thread was, and whether there were others elsewhere.
// Communicators that have ended count as well: what is in doubt passes.
std::atomic<const CommResources*> firstComm{nullptr};
std::atomic<bool> areSeveral{false};

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

void noteAutogradReduction(const CommResources& comm) {
  if (firstComm.load() == &comm) return;
  const CommResources* first = nullptr;
  const bool isFirst = firstComm.compare_exchange_strong(first, &comm);
  if (!isFirst && first != &comm) areSeveral.store(true);
}

bool reducesFromAutograd() {
  return firstComm.load() != nullptr;
}

bool reducesFromAutogradBeside(const CommResources& comm) {
  return areSeveral.load() || (reducesFromAutograd() && firstComm.load() != &comm);
}

}  // namespace cinch
