#include "interpose/comm/caller.h"

#include <dlfcn.h>
#include <sys/prctl.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace cinch {
namespace {

// torch/csrc/autograd/engine.cpp (1.13 to 2.15) calls the threads of its devices so before they run
// anything: "pt_autograd_0".
constexpr std::string_view kAutogradThread = "pt_autograd_";

// Where the first reduction was, and whether there were others elsewhere. Communicators that have
// ended count as well: what is in doubt passes.
std::atomic<const CommResources*> firstComm{nullptr};
std::atomic<bool> areSeveral{false};
std::atomic<bool> isFromAutograd{false};  // one of them

thread_local ScatteredShard scattered;

Caller callerOf(std::string_view name) {
  return name.starts_with(kAutogradThread) ? Caller::autograd : Caller::other;
}

Caller readCaller() {
  char name[16] = {};  // as long as Linux's names are
  return prctl(PR_GET_NAME, name) == 0 ? callerOf(name) : Caller::other;
}

}  // namespace

Caller currentCaller() {
  static thread_local const Caller caller = readCaller();
  return caller;
}

void noteReduction(const CommResources& comm, Caller caller) {
  if (caller == Caller::autograd && !isFromAutograd.load()) isFromAutograd.store(true);
  if (firstComm.load() == &comm) return;
  const CommResources* first = nullptr;
  const bool isFirst = firstComm.compare_exchange_strong(first, &comm);
  if (!isFirst && first != &comm) areSeveral.store(true);
}

bool reducesFromAutograd() {
  return isFromAutograd.load();
}

bool reducesBeside(const CommResources& comm) {
  const CommResources* const first = firstComm.load();
  return areSeveral.load() || (first != nullptr && first != &comm);
}

bool hasAutogradThreads() {
  // Threads end while this looks, which must be no exception: nobody would catch it.
  std::error_code error;
  std::filesystem::directory_iterator thread("/proc/self/task", error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    std::string name;
    std::ifstream comm(thread->path() / "comm");
    std::getline(comm, name);
    if (callerOf(name) == Caller::autograd) return true;
  }
  return false;
}

bool isPyTorchLoaded() {
  void* const library = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

void noteScattered(ScatteredShard shard) {
  scattered = std::move(shard);
}

SharedFinding shardOfAnother(const CommResources& comm, const void* data_dev, uint64_t count) {
  const bool isShard = scattered.comm != nullptr && scattered.comm != &comm &&
                       data_dev != nullptr && scattered.data_dev == data_dev &&
                       scattered.count == count;
  return isShard ? scattered.finding : nullptr;
}

}  // namespace cinch
