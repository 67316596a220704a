// The host codec made slower: every launch is followed by a sleep of SLOW_CODEC_NS nanoseconds for
// each value that it codes or decodes. It exports the same table, and lies beside a libcinch.so of
// its own (bench/schedule/overlap.py). A sleeping codec leaves the processor to the network, as a
// GPU does.
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>

#include "kernels/device_table.h"
#include "kernels/host/runtime_symbols.h"

namespace {

using cinch::DecodeLaunch;
using cinch::DeviceTable;
using cinch::EncodeLaunch;
using cinch::ReduceLaunch;

const DeviceTable* real;
cinch::host::RuntimeSymbols runtime;

double nanosecondsPerValue() {
  static const char* const text = std::getenv("SLOW_CODEC_NS");
  static const double value = text == nullptr ? 0 : std::atof(text);
  return value;
}

void sleepFor(void* nanoseconds) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(reinterpret_cast<uintptr_t>(nanoseconds)));
}

// Whoever reads a mixed layout on the host can do so: the emulator's device memory is the host's.
uint64_t valuesOf(const cinch::wire::ShardLayout& layout, int64_t skipped = -1) {
  uint64_t sum = 0;
  for (uint32_t shard = 0; shard < layout.nShards; ++shard)
    if (static_cast<int64_t>(shard) != skipped) sum += layout.shardElems(shard);
  return sum;
}
uint64_t valuesOf(const EncodeLaunch& launch) {
  return valuesOf(launch.call.layout, launch.skipShard);
}
uint64_t valuesOf(const ReduceLaunch& launch) {
  return launch.call.layout.shardElems(launch.shard) * launch.nParts();
}
uint64_t valuesOf(const DecodeLaunch& launch) {
  return valuesOf(launch.call.layout);
}

template <auto function, class Launch>
int slowly(const Launch* launches, uint32_t n, void* stream) {
  if (const int error = (real->*function)(launches, n, stream)) return error;
  uint64_t nValues = 0;
  for (const Launch& launch : std::span(launches, n)) nValues += valuesOf(launch);
  const auto nanoseconds =
      static_cast<uintptr_t>(static_cast<double>(nValues) * nanosecondsPerValue());
  return runtime.cudaLaunchHostFunc(stream, sleepFor, reinterpret_cast<void*>(nanoseconds));
}

int initialise() {
  cinch::host::findRuntimeSymbols(runtime);
  return real->initialise();
}

DeviceTable slowTable() {
  void* const library = dlopen(SLOW_CODEC_REAL, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  real = static_cast<const DeviceTable*>(dlsym(library, cinch::kDeviceTableSymbol));
  if (real == nullptr) return {};
  DeviceTable slow = *real;
  slow.initialise = initialise;
  slow.encode = slowly<&DeviceTable::encode>;
  slow.reduce = slowly<&DeviceTable::reduce>;
  slow.decode = slowly<&DeviceTable::decode>;
  return slow;
}

}  // namespace

extern "C" {
[[gnu::visibility("default")]] DeviceTable cinchDeviceTable_v1 = slowTable();
}
